"""Ranks that see different data stop at once and name the first difference; no rank hangs or trains on its own."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.cli import write_pictures
from helpers.runner import Ended, Runner

IN_FOLDER_OF_RANK = """
import os, sys
from accel_train.cli.app import main
os.chdir(os.environ["RANK"])
main()
"""
"""accel_train; each rank starts in its own folder."""
OPTIONS = ("--model", "mlp", "--image-size", "8", "--batch-size", "4", "--epochs", "1", "--device", "cpu")
MODULE = """
import torch
from accel_train.data.sources import MemorySource

def load():
    images = torch.zeros(8, 1, 4, 4, dtype=torch.uint8)
    return tuple(MemorySource(("a", "b"), images, torch.arange(8) % 2) for _ in range(2))
"""


@pytest.fixture
def both(run: Runner) -> Path:
    """Return the folder of rank 1; it and that of rank 0 hold the same pictures and module."""
    for rank in ("0", "1"):
        for split, count in (("train", 6), ("val", 2)):
            write_pictures(run.folder / rank / "pics" / split, {"ape": count, "bear": count}, size=8)
        (run.folder / rank / "mine.py").write_text(MODULE)
    return run.folder / "1"


def start(run: Runner, *words: str | Path) -> Ended:
    return run.script("-c", IN_FOLDER_OF_RANK, *words, processes=2)


def refused(ended: Ended, difference: str) -> None:
    assert ended.code == 2
    assert f"error: rank 1 sees other data than rank 0: {difference}\n" in ended.err
    assert "hint: give all machines the same files: copy them again, or use a shared folder\n" in ended.err
    assert len(ended.err.splitlines()) == 2


def rename_class(folder: Path) -> None:
    for split in ("train", "val"):
        (folder / "pics" / split / "bear").rename(folder / "pics" / split / "zebra")


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda pics: (pics / "train/ape/3.png").unlink(), "train/ape/3.png is missing"),
        (lambda pics: (pics / "val/bear/1.png").unlink(), "val/bear/1.png is missing"),
        (lambda pics: (pics / "train/ape/3.png").rename(pics / "train/ape/x.png"), "train/ape/3.png is missing"),
        (lambda pics: shutil.copy(pics / "train/ape/3.png", pics / "val/ape/y.png"), "val/ape/y.png is new"),
        (lambda pics: (pics / "val/ape/1.png").write_bytes(b"12"), "val/ape/1.png has 2 bytes instead of {size}"),
        (lambda pics: rename_class(pics.parent), "class bear is missing"),
    ],
    ids=["fewer", "fewer in val", "renamed", "more", "other size", "other class"],
)
def test_rank_with_other_files_is_named_with_the_first(
    run: Runner, both: Path, change: Callable[[Path], object], difference: str
) -> None:
    size = (both / "pics/val/ape/1.png").stat().st_size
    change(both / "pics")
    refused(start(run, "train", "--data", "pics", *OPTIONS), difference.format(size=size))
    assert not (run.folder / "0" / "runs").exists()


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ('("a", "b")', '("b", "a")', "the classes are b, a instead of a, b"),
        ("arange(8) % 2", "arange(8) // 4", "train contains other images"),
        ("zeros(8", "ones(8", "train contains other images"),
    ],
)
def test_rank_with_other_images_in_memory_is_named(
    run: Runner, both: Path, old: str, new: str, difference: str
) -> None:
    (both / "mine.py").write_text(MODULE.replace(old, new))
    refused(start(run, "train", "--data", "mine:load", *OPTIONS), difference)


def test_rank_that_evaluates_other_files_is_named(run: Runner, both: Path) -> None:
    assert run("train", "--data", "0/pics", *OPTIONS, "--output", "run").code == 0
    (both / "pics/val/ape/0.png").unlink()
    refused(start(run, "evaluate", run.folder / "run", "--data", "pics"), "val/ape/0.png is missing")


def test_equal_copies_train(run: Runner, both: Path) -> None:
    ended = start(run, "train", "--data", "pics", *OPTIONS, "--output", run.folder / "run")
    assert ended.code == 0, ended.err
