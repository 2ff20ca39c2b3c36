"""Packed folders have the same split, labels and crops as the folder that was packed."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from accel_train.data.open import data_notes, open_data, open_for_evaluation
from accel_train.data.packing import pack as packing
from accel_train.data.packing.manifest import MANIFEST, UNFINISHED
from accel_train.data.packing.pack import begin, pack
from accel_train.data.sources.base import DataSet, LabelsFrom, View
from accel_train.errors import UserError

SIDE = 48


@pytest.fixture(autouse=True)
def seven_pictures_per_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_PICTURES_PER_SHARD", 7)


def pictures(root: Path, *splits: str, classes: str = "abc") -> Path:
    """Make smooth pictures of different colours and sizes."""
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
def test_packed_folder_reads_as_the_folder_does(
    tmp_path: Path, splits: tuple[str, ...], keys: list[int] | None
) -> None:
    source = pictures(tmp_path / "src", *splits)
    folder, pack_ = opened(source), opened(packed(source, tmp_path / "dst"))
    for a, b in ((folder.train, pack_.train), (folder.val, pack_.val)):
        assert len(a) == len(b)
        assert a.classes == b.classes
        assert np.array_equal(a.path_hashes, b.path_hashes)  # the split of the folder
        assert a.counts.tolist() == b.counts.tolist()
        assert (a.shape, b.shape) == ((3, 64, 64), (3, 32, 32))
        ids = torch.randperm(len(a))[: 15 if len(a) > 15 else 6].tolist()
        (images, labels), (others, same) = (
            s.read(ids, keys and keys[: len(ids)], View(24, random_crop=True)) for s in (a, b)
        )
        assert labels.equal(same)
        assert others.shape == images.shape
        assert (images.int() - others.int()).abs().float().mean() < 3  # of 255: packing resizes once more
    assert (pack_.kind, pack_.mean, pack_.std) == (folder.kind, folder.mean, folder.std)


def test_picture_is_the_same_in_any_batch(tmp_path: Path) -> None:
    train, view = opened(packed(pictures(tmp_path / "src"), tmp_path / "dst")).train, View(24, random_crop=True)
    together, _ = train.read([3, 17, 9], [5, 6, 7], view)
    alone, _ = train.read([17], [6], view)
    assert together[1:2].equal(alone)


def test_evaluation_labels_pictures_by_the_runs_classes(tmp_path: Path) -> None:
    folder = packed(pictures(tmp_path / "src", "train", "val", classes="bd"), tmp_path / "dst")
    source = open_for_evaluation(folder, ("a", "b", "c", "d"), "runs/x").splits["val"]
    assert source.classes == ("a", "b", "c", "d")
    assert source.read(range(20), None, View(24, random_crop=False))[1].tolist() == [1] * 10 + [3] * 10
    with pytest.raises(UserError, match="holds the class d, which runs/x lacks"):
        open_for_evaluation(folder, ("a", "b", "c"), "runs/x")


def test_changed_source_is_reported_and_a_missing_one_is_not(tmp_path: Path) -> None:
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
    gone = f"{source} cannot be compared with {folder}, which was packed from it: {source} has train/ but no val/"
    assert data_notes(str(folder)) == (gone,)
    shutil.rmtree(source)
    assert data_notes(str(folder)) == ()


def test_incomplete_folder_is_rejected_with_the_command_that_repairs_it(tmp_path: Path) -> None:
    source, folder = pictures(tmp_path / "src"), tmp_path / "dst"
    packed(source, folder)
    shard = folder / "all-00001.safetensors"
    content = shard.read_bytes()
    for left in (content[:-1], None):
        shard.unlink() if left is None else shard.write_bytes(left)
        with pytest.raises(UserError, match=r"all-00001.safetensors has") as caught:
            opened(folder)
        assert f"accel_train pack {source} {folder} --side {SIDE}" in caught.value.hint
    (folder / MANIFEST).rename(folder / UNFINISHED)
    with pytest.raises(UserError, match=f"{folder} is not completely packed"):
        opened(folder)


def test_val_fraction_is_rejected_if_there_is_a_val_split(tmp_path: Path) -> None:
    assert 10 <= len(opened(packed(pictures(tmp_path / "a"), tmp_path / "b"), val_fraction=0.5).val) <= 20
    whole = packed(pictures(tmp_path / "c", "train", "val"), tmp_path / "d")
    with pytest.raises(UserError, match="--val-fraction has no effect"):
        opened(whole, val_fraction=0.5)


def test_fingerprint_is_that_of_the_pictures_in_the_split(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src")
    folder, same = (packed(source, tmp_path / name) for name in ("dst", "same"))
    sources = (opened(folder, seed=0).train, opened(folder, seed=1).train, opened(folder, seed=0).val)
    assert len({part.fingerprint for part in sources}) == 3
    assert opened(same, seed=0).train.fingerprint == sources[0].fingerprint
    (source / "a" / "0.png").rename(source / "a" / "9a.png")
    assert opened(packed(source, folder), seed=0).train.fingerprint != sources[0].fingerprint


def test_evaluation_compares_names_as_people_read_them(tmp_path: Path) -> None:
    folder = packed(pictures(tmp_path / "src", "train", "val", classes="be"), tmp_path / "dst")
    with pytest.raises(UserError) as caught:
        open_for_evaluation(folder, ("B", "e"), "runs/x")
    assert caught.value.message == f"{folder} holds the class 'b', which runs/x has as 'B'"


def test_test_split_is_packed_and_opened_if_it_is_wanted(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src", "train", "val", "test")
    folder = packed(source, tmp_path / "dst")
    assert opened(folder).test is None
    data = open_data(str(folder), directory=None, val_fraction=None, seed=0, limit=None, with_test=True)
    assert data.test is not None
    assert len(data.test) == 30
    test = open_for_evaluation(folder, ("a", "b", "c"), "runs/x", split="test").splits["test"]
    unpacked = open_for_evaluation(source, ("a", "b", "c"), "runs/x", split="test").splits["test"]
    view = View(24, random_crop=False)
    one, other = (source.read([0, 29], None, view) for source in (test, unpacked))
    assert torch.equal(one[1], other[1])
    assert (one[0].int() - other[0].int()).abs().max() <= 8  # shrunk twice
    assert data_notes(str(folder)) == ()
    with pytest.raises(UserError, match="has no split test"):
        open_for_evaluation(packed(pictures(tmp_path / "plain"), tmp_path / "x"), ("a", "b", "c"), "r", split="test")


def test_labels_of_a_file_are_packed(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src")
    file = tmp_path / "labels.csv"
    lines = [
        f"{path.relative_to(source)},{'even' if int(path.stem) % 2 == 0 else 'odd'}" for path in source.rglob("*.png")
    ]
    file.write_text("\n".join(["file,label", *lines]) + "\n")
    labels = LabelsFrom(file)
    begun = begin(source, tmp_path / "dst", SIDE, labels)
    list(pack(begun, 1))
    begun.lock.release()
    packed_, listed = (
        open_data(str(root), directory=None, val_fraction=0.5, seed=3, limit=None, labels=given)
        for root, given in ((tmp_path / "dst", LabelsFrom()), (source, labels))
    )
    assert packed_.val.classes == ("even", "odd")
    for ours, theirs in ((packed_.train, listed.train), (packed_.val, listed.val)):
        read = [each.read(range(len(each)), None, View(24, random_crop=False)) for each in (ours, theirs)]
        assert torch.equal(read[0][1], read[1][1])
        assert (read[0][0].int() - read[1][0].int()).abs().max() <= 8  # shrunk twice
    assert data_notes(str(tmp_path / "dst")) == ()
    file.write_text(file.read_text().replace(",odd", ",even", 1))
    (note,) = data_notes(str(tmp_path / "dst"))
    assert note.endswith(f"pack it again with: accel_train pack {source} {tmp_path}/dst --side 48 --labels {file}")
