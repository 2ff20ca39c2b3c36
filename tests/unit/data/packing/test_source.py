"""Packed folders as data sets: the same split, labels and crops as the folder itself, mapped and not copied."""

import math
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from accel_train.data import packing
from accel_train.data.images.crops import random_box
from accel_train.data.open import data_notes, open_data, open_for_evaluation
from accel_train.data.packing.manifest import RECORD, UNFINISHED
from accel_train.data.packing.pack import begin, pack
from accel_train.data.packing.source import PackedSource
from accel_train.data.sources.base import DataSet
from accel_train.errors import UserError
from accel_train.rng import make_key

SIDE = 48


@pytest.fixture(autouse=True)
def seven_pictures_per_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_PICTURES_PER_SHARD", 7)


def pictures(root: Path, *splits: str, classes: str = "abc") -> Path:
    """Make smooth pictures, each of its own colour and shape."""
    for split in splits or (".",):
        for label, name in enumerate(classes):
            (root / split / name).mkdir(parents=True)
            for number in range(10):
                width, height = 70 + 7 * number, 100 - 5 * number
                rows, columns = np.mgrid[0:height, 0:width]
                blue = np.full_like(rows, 20 * number + 5 * label)
                pixels = np.stack([rows * 200 // height, columns * 200 // width, blue], axis=2)
                Image.fromarray(pixels.astype(np.uint8)).save(root / split / name / f"{number}.png")
    return root


def packed(source: Path, folder: Path) -> Path:
    begun = begin(source, folder, SIDE)
    list(pack(begun, 1))
    begun.lock.release()
    return folder


def opened(root: Path, val_fraction: float | None = None, seed: int = 3) -> DataSet:
    return open_data(str(root), directory=None, val_fraction=val_fraction, seed=seed, limit=None)


@pytest.mark.parametrize("splits", [(), ("train", "val")])
@pytest.mark.parametrize("keys", [None, list(range(1000, 1015))], ids=["evaluation", "training"])
def test_it_reads_as_the_folder_does(tmp_path: Path, splits: tuple[str, ...], keys: list[int] | None) -> None:
    source = pictures(tmp_path / "src", *splits)
    folder, pack_ = opened(source), opened(packed(source, tmp_path / "dst"))
    for a, b in ((folder.train, pack_.train), (folder.val, pack_.val)):
        assert len(a) == len(b)
        assert a.classes == b.classes
        assert (a.shape, b.shape) == ((3, 64, 64), (3, 32, 32))
        ids = torch.randperm(len(a))[: 15 if len(a) > 15 else 6].tolist()
        (images, labels), (others, same) = (
            s.at(24, random_crop=True).read(ids, keys and keys[: len(ids)]) for s in (a, b)
        )
        assert labels.equal(same)
        assert others.shape == images.shape
        assert (images.int() - others.int()).abs().float().mean() < 3  # of 255: the resize in between
    assert (pack_.kind, pack_.mean, pack_.std) == (folder.kind, folder.mean, folder.std)


def test_the_same_keys_choose_the_same_relative_crops() -> None:
    for key in range(200):
        box, smaller = random_box(375, 500, make_key(key)), random_box(256, 341, make_key(key))
        for a, b in zip(box, smaller, strict=True):
            assert math.isclose(a * 256 / 375, b, abs_tol=1.7)


def test_a_batch_does_not_depend_on_the_others_in_it(tmp_path: Path) -> None:
    train = opened(packed(pictures(tmp_path / "src"), tmp_path / "dst")).train.at(24, random_crop=True)
    together, _ = train.read([3, 17, 9], [5, 6, 7])
    alone, _ = train.read([17], [6])
    assert together[1:2].equal(alone)


def test_pictures_are_mapped_and_neither_copied_nor_pickled(tmp_path: Path) -> None:
    source = opened(packed(pictures(tmp_path / "src"), tmp_path / "dst")).train
    assert isinstance(source, PackedSource)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    images, labels = source.read([0, 9], None)
    assert f"{tmp_path / 'dst' / 'all-00000.safetensors'}" in Path("/proc/self/maps").read_text()
    carried = pickle.dumps(source)
    assert len(carried) < 10_000
    again, same = pickle.loads(carried).read([0, 9], None)
    assert again.equal(images)
    assert labels.equal(same)


def test_evaluation_labels_by_the_runs_classes(tmp_path: Path) -> None:
    folder = packed(pictures(tmp_path / "src", "train", "val", classes="bd"), tmp_path / "dst")
    source = open_for_evaluation(folder, ("a", "b", "c", "d"), "runs/x")
    assert source.classes == ("a", "b", "c", "d")
    assert source.read(range(20), None)[1].tolist() == [1] * 10 + [3] * 10
    with pytest.raises(UserError, match="holds the class d, which runs/x lacks"):
        open_for_evaluation(folder, ("a", "b", "c"), "runs/x")


def test_a_changed_source_is_noticed_and_a_missing_one_is_not(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src", "train", "val")
    folder = packed(source, tmp_path / "dst")
    assert data_notes(str(folder)) == ()
    os.utime(source / "val" / "a" / "1.png", (1, 1))
    changed = (
        f"{source} has changed since {folder} was packed; "
        f"pack it again with: accel_train pack {source} {folder} --side {SIDE}"
    )
    assert data_notes(str(folder)) == (changed,)
    shutil.rmtree(source / "val")
    assert data_notes(str(folder)) == (changed,)
    shutil.rmtree(source)
    assert data_notes(str(folder)) == ()


def test_what_is_not_whole_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    source, folder = pictures(tmp_path / "src"), tmp_path / "dst"
    packed(source, folder)
    shard = folder / "all-00001.safetensors"
    content = shard.read_bytes()
    for left in (content[:-1], None):
        shard.unlink() if left is None else shard.write_bytes(left)
        with pytest.raises(UserError, match=r"all-00001.safetensors has") as caught:
            opened(folder)
        assert f"accel_train pack {source} {folder} --side {SIDE}" in caught.value.hint
    (folder / RECORD).rename(folder / UNFINISHED)
    with pytest.raises(UserError, match=f"{folder} has not been packed to the end"):
        opened(folder)


def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for text, words in (("{", "cannot read"), ('{"format": 99}', "has format 99, this version reads 1")):
        (tmp_path / RECORD).write_text(text)
        with pytest.raises(UserError, match=words):
            opened(tmp_path)


def test_a_fraction_is_of_use_only_where_nothing_validates(tmp_path: Path) -> None:
    assert len(opened(packed(pictures(tmp_path / "a"), tmp_path / "b"), val_fraction=0.5).val) == 15
    whole = packed(pictures(tmp_path / "c", "train", "val"), tmp_path / "d")
    with pytest.raises(UserError, match="--val-fraction has no effect"):
        opened(whole, val_fraction=0.5)
