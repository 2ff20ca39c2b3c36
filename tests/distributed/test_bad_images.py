"""Bad pictures stop a run before training, or are left out alike on every process."""

from pathlib import Path

import numpy as np
import pytest
from helpers.cli import assert_refused
from helpers.comparing import flags
from helpers.runner import Runner
from PIL import Image

RUN = {"data": "pics", "model": "cnn", "image_size": 24, "global_batch_size": 8, "batch_size": 4, "epochs": 2}
REASON = "Corrupt JPEG data: premature end of data segment"


def make(folder: Path) -> None:
    for label, name in enumerate("ab"):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            pixels = np.random.default_rng(100 * label + number).integers(0, 256, (30, 40, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.jpg")


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-500] + b"\xff\xd9")


@pytest.fixture
def pictures(run: Runner) -> Path:
    folder = run.folder / "pics"
    make(folder)
    return folder


def test_skipping_gives_the_same_run_on_any_number_of_processes(run: Runner, pictures: Path) -> None:
    for name in ("a/3", "a/11", "b/7", "b/8", "b/9"):
        damage(pictures / f"{name}.jpg")
    runs = {}
    for processes in (1, 2):
        output = run.folder / str(processes)
        options = {**RUN, "output": output, "on_bad_image": "skip"}
        ended = run("train", *flags(options), "--exact", processes=processes)
        assert ended.code == 0, ended.err
        assert "note: 5 of 40 pictures cannot be read and are left out: bad_images.txt lists them" in ended.out
        runs[processes] = [
            (output / name).read_bytes() for name in ("model.safetensors", "bad_images.txt", "config.json")
        ]
    assert runs[1] == runs[2]
    lines = [line.split("\t") for line in runs[1][1].decode().splitlines()]
    assert sorted(name.partition("/")[2] for name, _ in lines) == [
        f"{n}.jpg" for n in ("a/11", "a/3", "b/7", "b/8", "b/9")
    ]
    assert {reason for _, reason in lines} == {REASON}
    evaluated = run("evaluate", "2")
    assert (evaluated.code, evaluated.err) == (0, "")
    resumed = run("train", "--resume", "2", "--epochs", "3", "--exact", processes=2)
    assert resumed.code == 0, resumed.err
    assert "resumed at epoch 3 of 3" in resumed.out
    (pictures / "b" / "7.jpg").write_bytes((pictures / "b" / "6.jpg").read_bytes())  # repaired: now it is other data
    assert "+1 file in " in run("train", "--resume", "2", "--epochs", "4").err


@pytest.mark.parametrize("processes", [1, 2])
def test_pictures_that_begin_wrongly_stop_the_run_before_training(run: Runner, pictures: Path, processes: int) -> None:
    (pictures / "a" / "2.jpg").write_bytes(b"")
    ended = run("train", *flags({**RUN, "output": "out"}), processes=processes)
    assert ended.err.splitlines() == [
        "error: cannot read the picture pics/a/2.jpg: the file is empty",
        "hint: repair or remove it, or leave it out with --on-bad-image skip",
    ]
    (pictures / "b" / "9.jpg").write_bytes(b"<html>")
    ended = run("train", *flags({**RUN, "output": "out"}), processes=processes)
    assert "error: 2 of 40 pictures cannot be read, such as pics/" in ended.err
    assert "hint: `accel_train check pics` lists them: repair or remove them, or leave" in ended.err
    assert not (run.folder / "out").exists()


def test_damage_found_while_training_names_the_way_out(run: Runner, pictures: Path) -> None:
    damage(pictures / "a" / "2.jpg")
    ended = run("train", *flags({**RUN, "output": "out"}))
    assert ended.code == 2
    assert f"error: cannot read the picture pics/a/2.jpg: {REASON}" in ended.err
    assert "hint: repair or remove it; `accel_train check` lists all that cannot be read" in ended.err


def test_skipping_needs_a_folder_of_pictures(run: Runner) -> None:
    ended = run("train", "--data", "digits", "--on-bad-image", "skip", "--dry-run")
    assert_refused(ended, "--on-bad-image skip has no effect on digits", "leave it out")
