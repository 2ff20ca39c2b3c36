"""Runs that start at the same time in one folder are never mixed: one is refused, or resumes after the other."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from helpers import warm
from helpers.cli import assert_refused
from helpers.runner import Runner, clean_environment

OPTIONS = ("train", "--limit", "64", "--model", "mlp", "--batch-size", "8", "--device", "cpu", "--quiet")


Start = Callable[..., BaseProcess]


@pytest.fixture
def start(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a forked run, which ends at the latest with the test."""
    started: list[BaseProcess] = []

    def start(*words: str) -> BaseProcess:
        command = [sys.executable, "-m", "accel_train", *OPTIONS, *words]
        streams = tmp_path_factory.mktemp("streams")
        started.append(warm.start(command, folder=tmp_path, environment=clean_environment(), streams=streams))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.join()


def ended_by(process: BaseProcess) -> int | None:
    """Stop a run, and return its exit code."""
    process.terminate()
    process.join(30)
    return process.exitcode


def nonces(run: Path) -> set[str]:
    """Return the nonces in the checkpoints of a run, one per attempt."""
    return {json.loads(path.read_text())["nonce"] for path in run.glob("checkpoints/update_*/state.json")}


def test_runs_of_different_seeds_get_folders_of_their_own(start: Start, tmp_path: Path) -> None:
    started = [start("--epochs", "2", "--seed", str(seed)) for seed in range(8)]
    for process in started:
        process.join(120)
    assert [process.exitcode for process in started] == [0] * 8
    runs = sorted((tmp_path / "runs").iterdir())
    assert [run.name for run in runs] == [f"digits_mlp_00{number}" for number in range(1, 9)]
    seeds = {json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["seed"] for run in runs}
    assert seeds == set(range(8))
    assert all(len(nonces(run)) == 1 for run in runs)


@pytest.mark.parametrize("other", [(), ("--lr", "0.01")], ids=["same", "another"])
def test_second_start_is_refused_while_the_first_holds_the_folder(
    start: Start, tmp_path: Path, other: tuple[str, ...]
) -> None:
    first = start("--epochs", "100000", "--output", "run")
    while not list(tmp_path.glob("run/checkpoints/update_*")):
        time.sleep(0.1)
        assert first.is_alive()
    before = (tmp_path / "run/config.yaml").read_bytes()
    refused = Runner(tmp_path)(*OPTIONS, "--epochs", "2", "--output", "run", *other)
    assert_refused(refused, f"another run is writing to run (process {first.pid}")
    assert (tmp_path / "run/config.yaml").read_bytes() == before
    assert ended_by(first) == 143
    assert len(nonces(tmp_path / "run")) == 1


def test_same_command_without_output_is_refused_while_it_runs(start: Start, tmp_path: Path) -> None:
    first = start("--epochs", "100000")
    while not list(tmp_path.glob("runs/*/checkpoints/update_*")):
        time.sleep(0.1)
        assert first.is_alive()
    refused = Runner(tmp_path)(*OPTIONS, "--epochs", "100000")
    assert_refused(refused, "another run is writing to runs/digits_mlp_001")
    assert ended_by(first) == 143
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["digits_mlp_001"]


def test_refused_run_leaves_no_folder(run: Runner) -> None:
    assert_refused(run(*OPTIONS, "--epochs", "1", "--model", "nonsense"), "unknown model 'nonsense'")
    assert_refused(run(*OPTIONS, "--epochs", "1", "--model", "nonsense", "--output", "mine"), "unknown model")
    assert not list((run.folder / "runs").glob("*"))
    assert not (run.folder / "mine").exists()


def test_empty_folder_of_the_user_is_kept(run: Runner) -> None:
    (run.folder / "mine").mkdir()
    assert_refused(run(*OPTIONS, "--epochs", "1", "--model", "nonsense", "--output", "mine"), "unknown model")
    assert (run.folder / "mine").is_dir()
