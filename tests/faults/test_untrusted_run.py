"""A run folder that somebody else has made or changed is data: it names no code that runs, and no value is believed."""

import json
import shutil
from pathlib import Path

import pytest
from helpers.cli import assert_refused
from helpers.runner import Runner
from PIL import Image

OPTIONS = ("--epochs", "1", "--batch-size", "8", "--device", "cpu")
MINE = """
import pathlib
pathlib.Path("imported").touch()
import torch
from accel_train.data.sources import MemorySource

def build(classes, channels, image_size):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * image_size**2, classes))

def load():
    images = torch.zeros(64, 1, 8, 8, dtype=torch.uint8)
    return tuple(MemorySource(tuple("0123456789"), images, torch.arange(64) % 10) for _ in range(2))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a module and runs with and without the user's own model and data."""
    at_top = Runner(tmp_path_factory.mktemp("untrusted"))
    (at_top.folder / "mine.py").write_text(MINE)
    own = ("--model", "mine:build", "--data", "mine:load")
    for name, words in (("own", own), ("plain", ("--model", "mlp", "--limit", "64"))):
        ended = at_top("train", *OPTIONS, *words, "--output", name)
        assert ended.code == 0, ended.err
    (at_top.folder / "imported").unlink()
    return at_top.folder


@pytest.fixture
def place(run: Runner, made: Path) -> Runner:
    shutil.copytree(made, run.folder, dirs_exist_ok=True)
    return run


def plant(run: Path, *, model: str | None = None, data: str | None = None) -> None:
    """Let the files of a run name code."""
    if model:
        description = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps(description | {"model": model}))
    text = (run / "config.yaml").read_text()
    for field, old, new in (("model", "mlp", model), ("data", "digits", data)):
        if new:
            assert f"\n{field}: {old} " in text
            text = text.replace(f"\n{field}: {old} ", f"\n{field}: {new} ")
    (run / "config.yaml").write_text(text)


@pytest.mark.parametrize("name", ["mine:build", "plain.log.evil:build", "http.server:test"])
def test_model_that_a_run_names_is_not_imported(place: Runner, name: str) -> None:
    shutil.copy(place.folder / "mine.py", place.folder / "plain/log/evil.py")
    plant(place.folder / "plain", model=name)
    refused = place("evaluate", "plain", timeout=30)
    assert_refused(
        refused, f"plain names code of its own: model {name}", f"if you know and trust it, add --model {name}"
    )
    assert not (place.folder / "imported").exists()


@pytest.mark.parametrize("name", ["mine:load", "plain.log.evil:load", "http.server:test"])
def test_data_that_a_run_names_are_not_imported(place: Runner, name: str) -> None:
    shutil.copy(place.folder / "mine.py", place.folder / "plain/log/evil.py")
    plant(place.folder / "plain", data=name)
    message, hint = f"plain names code of its own: data {name}", f"if you know and trust it, add --data {name}"
    assert_refused(place("evaluate", "plain", timeout=30), message, hint)
    assert not (place.folder / "imported").exists()


def test_own_model_and_data_are_used_when_the_user_names_them(place: Runner) -> None:
    assert_refused(place("evaluate", "own"), "own names code of its own: model mine:build")
    assert_refused(place("evaluate", "own", "--model", "mine:build"), "own names code of its own: data mine:load")
    assert not (place.folder / "imported").exists()
    named = place("evaluate", "own", "--model", "mine:build", "--data", "mine:load", "--json")
    assert named.code == 0, named.err
    assert named.records[0]["images"] == 64
    other_data = place("evaluate", "own", "--model", "mine:build", "--data", "digits")
    assert other_data.code == 0, other_data.err


def test_model_without_effect_is_refused(place: Runner) -> None:
    for name in ("cnn", "mine:build"):
        assert_refused(place("evaluate", "plain", "--model", name), f"--model {name}, but that of plain is mlp")


@pytest.mark.parametrize("shard", ["../precious.txt", "ABSOLUTE"])
def test_pack_removes_no_file_that_a_manifest_names(run: Runner, shard: str) -> None:
    precious = run.folder / "precious.txt"
    precious.write_text("mine")
    for name in ("a", "b"):
        (run.folder / "pics" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(run.folder / "pics" / name / "0.png")
    assert run("pack", "pics", "packed", "--side", "8").code == 0
    manifest = run.folder / "packed/pack.json"
    record = json.loads(manifest.read_text())
    record["shards"] |= {shard.replace("ABSOLUTE", str(precious)): {"sha256": "", "bytes": 4}}
    manifest.write_text(json.dumps(record))
    assert_refused(
        run("pack", "pics", "packed", "--side", "4"), "cannot read packed/pack.json", "is no name of a shard"
    )
    assert precious.read_text() == "mine"
