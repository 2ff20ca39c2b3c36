"""Weights that are damaged, or not as they were exported, are never used."""

import shutil
from pathlib import Path

import pytest
import safetensors.torch
from helpers.cli import assert_refused
from helpers.faults import TINY
from helpers.marks import slow
from helpers.runner import Runner

HINT = "hint: copy it again from where it was written, or train again"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run."""
    at_top = Runner(tmp_path_factory.mktemp("weights"))
    ended = at_top("train", *TINY, "--epochs", "1", "--output", "run")
    assert ended.code == 0, ended.err
    return at_top.folder


@pytest.fixture
def place(run: Runner, made: Path) -> Runner:
    shutil.copytree(made, run.folder, dirs_exist_ok=True)
    return run


def flip(path: Path, byte: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("words", "name", "processes"),
    [
        (("evaluate", "run"), "run/model.safetensors", 1),
        (("evaluate", "run", "--weights", "best"), "run/best.safetensors", 1),
        slow(("evaluate", "run"), "run/model.safetensors", 2),
        (("train", *TINY, "--weights", "run", "--output", "new"), "run/model.safetensors", 1),
        slow(("train", *TINY, "--weights", "run", "--output", "new"), "run/model.safetensors", 2),
        (("train", *TINY, "--weights", "run/best.safetensors", "--output", "new"), "run/best.safetensors", 1),
        (("train", *TINY, "--weights", "lone.safetensors", "--output", "new"), "lone.safetensors", 1),
        (("train", *TINY, "--weights", "{best}", "--output", "new"), "{best}", 1),
    ],
)
def test_flipped_byte_is_one_error(place: Runner, words: tuple[str, ...], name: str, processes: int) -> None:
    shutil.copy(place.folder / "run/model.safetensors", place.folder / "lone.safetensors")
    best = str(next((place.folder / "run/checkpoints").glob("*/best.safetensors")).relative_to(place.folder))
    name, words = name.format(best=best), tuple(word.format(best=best) for word in words)
    for byte in (-1,) if processes > 1 else (-1, 200):
        flip(place.folder / name, byte)
        ended = place(*words, processes=processes)
        flip(place.folder / name, byte)
        assert ended.code == 2
        assert_refused(ended, f"error: {name} is damaged: its sha256 differs\n", HINT)
        assert not (place.folder / "new").exists()


def test_file_without_checksum_is_refused_in_a_run_only(place: Runner) -> None:
    path = place.folder / "run/model.safetensors"
    safetensors.torch.save_file(safetensors.torch.load_file(path), path)
    shutil.copy(path, place.folder / "lone.safetensors")
    message = "run/model.safetensors contains no sha256: it is damaged, or not as accel_train wrote it"
    assert_refused(place("evaluate", "run"), message, HINT)
    assert_refused(place("train", *TINY, "--weights", "run", "--output", "new"), message, HINT)
    used = place("train", *TINY, "--epochs", "1", "--weights", "lone.safetensors", "--output", "new")
    assert used.code == 0, used.err
    assert place("evaluate", "new").code == 0
