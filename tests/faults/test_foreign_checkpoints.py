"""A checkpoint counts only if it is this run's: not another's, not under another name, and with values that can be."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import assert_refused
from helpers.faults import TINY
from helpers.runner import Ended, Runner

NEWEST = "run/checkpoints/update_000016"
TENSORS = "tensors/shard-00001-model-00001-of-00001.safetensors"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = Runner(tmp_path_factory.mktemp("foreign"))
    assert at("train", *TINY, "--epochs", "2", "--keep", "2", "--output", "run").code == 0
    return at.folder


@pytest.fixture
def place(run: Runner, made: Path) -> Runner:
    shutil.copytree(made, run.folder, dirs_exist_ok=True)
    return run


def resumed(place: Runner) -> Ended:
    return place("train", *TINY, "--epochs", "3", "--output", "run")


def forge(checkpoint: Path, name: str, content: bytes) -> None:
    """Replace a file of a checkpoint, and its checksum."""
    (checkpoint / name).write_bytes(content)
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    manifest["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (checkpoint / "MANIFEST.json").write_text(json.dumps(manifest))


def test_checkpoint_of_another_run_is_not_resumed(place: Runner) -> None:
    for option, value, instead_of in (("--seed", "1", "0"), ("--optimizer", "adamw", "sgd")):
        name = option.strip("-")
        other = place("train", *TINY, "--epochs", "3", option, value, "--output", name)
        assert other.code == 0, other.err
        newest = place.folder / "run/checkpoints/update_000024"
        shutil.copytree(place.folder / name / "checkpoints/update_000024", newest)
        resumed = place("train", *TINY, "--epochs", "3", "--output", "run")
        assert_refused(resumed, "run/checkpoints/update_000024 is of another run: --", instead_of)
        shutil.rmtree(newest)


def test_renamed_checkpoint_is_refused(place: Runner) -> None:
    checkpoints = place.folder / "run/checkpoints"
    (checkpoints / "update_000008").rename(checkpoints / "update_000999")
    ended = place("train", *TINY, "--epochs", "3", "--output", "run")
    assert ended.code == 2
    assert "run/checkpoints/update_000999 holds update 8" in ended.err


def test_lost_records_are_reported(place: Runner) -> None:
    metrics = place.folder / "run/metrics.jsonl"
    size = metrics.stat().st_size
    os.truncate(metrics, size // 2)
    ended = place("train", *TINY, "--epochs", "3", "--output", "run")
    assert ended.code == 0, ended.err
    assert "run/metrics.jsonl lacks " in ended.out
    assert all(line.startswith("{") for line in metrics.read_text().splitlines())


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda state: state["position"].update(epochs=9), f"{NEWEST} is of no run of 8 updates per epoch"),
        (lambda state: state["position"].update(epochs=0), f"{NEWEST} is of no run of 8 updates per epoch"),
        (lambda state: state["position"].update(best=None), f"{NEWEST} is of no run of 8 updates per epoch"),
        (lambda state: state["position"].update(epoch_sums=[]), f"{NEWEST} is of no run of 8 updates per epoch"),
        (lambda state: state["position"].update(epochs="2"), "state.json is damaged: position.epochs is '2'"),
        (lambda state: state["config"].update(lr=9), f"{NEWEST} is of another run: --lr 9 instead of "),
        (lambda state: state.update(config={}), f"{NEWEST} is of another run: --on-bad-image None instead of 'stop'"),
        (lambda state: state["data"].update(classes=["\x1b[31m", "b"]), f"{NEWEST} was trained on other data"),
        (lambda state: state.update(metrics_bytes=-1), "state.json is damaged: metrics_bytes is -1"),
        (lambda state: state.update(format=99), "state.json has format 99, this version reads 3"),
        (lambda state: state.update(code="mine:build"), "state.json is damaged: code is unknown"),
    ],
)
def test_forged_state_is_refused(place: Runner, change: Change, problem: str) -> None:
    state = json.loads((place.folder / NEWEST / "state.json").read_text())
    change(state)
    forge(place.folder / NEWEST, "state.json", json.dumps(state).encode())
    assert_refused(resumed(place), problem)


def test_more_metrics_than_there_are_cost_no_memory(place: Runner) -> None:
    state = json.loads((place.folder / NEWEST / "state.json").read_text())
    forge(place.folder / NEWEST, "state.json", json.dumps(state | {"metrics_bytes": 2**53}).encode())
    ended = resumed(place)
    assert ended.code == 0, ended.err
    assert "run/metrics.jsonl lacks 9,007,199,254,7" in ended.out


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 100, (2**40).to_bytes(8, "little"), b"\x02\0\0\0\0\0\0\0{}"],
    ids=["empty", "bytes", "long header", "no tensors"],
)
def test_forged_tensors_are_refused(place: Runner, content: bytes) -> None:
    forge(place.folder / NEWEST, TENSORS, content)
    assert_refused(resumed(place), NEWEST)
