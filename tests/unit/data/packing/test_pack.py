"""Packing stores pictures in shards, keeps valid shards of an earlier attempt, and rejects unusable folders."""

import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from helpers.privileges import no_privileges
from PIL import Image

from accel_train.data.packing import pack as packing
from accel_train.data.packing.manifest import MANIFEST, UNFINISHED, read_manifest
from accel_train.data.packing.pack import begin, pack
from accel_train.data.packing.shard_writer import ShardDone, shrink
from accel_train.data.sources.split import path_hash
from accel_train.errors import UserError


@pytest.fixture(autouse=True)
def four_pictures_per_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_PICTURES_PER_SHARD", 4)


def noise(path: Path, width: int, height: int, seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def pictures(root: Path, per_class: int = 5) -> Path:
    for name in "ab":
        for number in range(per_class):
            noise(root / name / f"{number}.png", 20 + number, 12, seed=number + 100 * (name == "b"))
    return root


def packed(source: Path, folder: Path, side: int = 8) -> dict[str, bool]:
    """Pack; return for each shard whether it was there before."""
    begun = begin(source, folder, side)
    try:
        return {event.name: event.was_there for event in pack(begun, 2) if isinstance(event, ShardDone)}
    finally:
        begun.lock.release()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_pictures_are_stored_in_order_class_by_class(tmp_path: Path) -> None:
    for name, width, height in (("a/wide", 40, 10), ("a/tall", 10, 40), ("b/small", 5, 7)):
        noise(tmp_path / "src" / f"{name}.png", width, height)
    packed(tmp_path / "src", tmp_path / "dst")
    manifest = read_manifest(tmp_path / "dst" / MANIFEST)
    assert (manifest.classes, manifest.splits) == (["a", "b"], {"all": [2, 1]})
    shard = safetensors.torch.load_file(tmp_path / "dst" / "all-00000.safetensors")
    sizes = list(zip(shard["heights"].tolist(), shard["widths"].tolist(), strict=True))
    assert sizes == [(32, 8), (8, 32), (7, 5)]  # the small one keeps its size
    assert shard["offsets"].tolist() == [0, 768, 1536]
    assert shard["path_hashes"].tolist() == [path_hash(path) for path in ("a/tall.png", "a/wide.png", "b/small.png")]
    small = torch.from_numpy(np.array(Image.open(tmp_path / "src" / "b" / "small.png")))
    assert shard["pixels"][1536:].equal(small.flatten())


def test_orientation_is_applied(tmp_path: Path) -> None:
    noise(tmp_path / "src" / "a" / "0.png", 9, 9)
    (tmp_path / "src" / "b").mkdir()
    lying = Image.new("RGB", (30, 10))
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees
    lying.save(tmp_path / "src" / "b" / "0.jpg", exif=exif)
    packed(tmp_path / "src", tmp_path / "dst", side=10)
    shard = safetensors.torch.load_file(tmp_path / "dst" / "all-00000.safetensors")
    assert (shard["heights"].tolist()[1], shard["widths"].tolist()[1]) == (30, 10)


def test_resize_averages_pixels() -> None:
    halves = torch.zeros(20, 40, 3, dtype=torch.uint8)
    halves[:, 20:] = 200
    smaller = shrink(halves, 10)
    assert smaller.shape == (10, 20, 3)
    assert smaller[:, :9].eq(0).all()
    assert smaller[:, 11:].eq(200).all()


def test_shards_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src")
    for workers in (1, 2):
        list(pack(begin(source, tmp_path / str(workers), 8), workers))
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_valid_shards_are_kept_and_missing_or_damaged_ones_written_again(tmp_path: Path) -> None:
    source, folder = pictures(tmp_path / "src"), tmp_path / "dst"
    assert set(packed(source, folder).values()) == {False}
    before = contents(folder)
    assert len(before) == 4  # three shards and the manifest
    assert set(packed(source, folder).values()) == {True}
    (folder / "all-00000.safetensors").unlink()
    damaged = folder / "all-00001.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert packed(source, folder) == {
        "all-00000.safetensors": False,
        "all-00001.safetensors": False,
        "all-00002.safetensors": True,
    }
    assert contents(folder) == before


def test_interrupted_packing_resumes(tmp_path: Path) -> None:
    source, folder = pictures(tmp_path / "src"), tmp_path / "dst"
    begun = begin(source, folder, 8)
    first = next(event for event in pack(begun, 1) if isinstance(event, ShardDone))  # then stop
    begun.lock.release()
    assert (folder / UNFINISHED).exists()
    assert not (folder / MANIFEST).exists()
    (folder / f".tmp_{first.name}").touch()  # left by a killed process
    assert packed(source, folder)[first.name]
    assert not list(folder.glob(".tmp_*"))
    assert not (folder / UNFINISHED).exists()


def test_another_size_or_a_changed_source_starts_over_with_a_note(tmp_path: Path) -> None:
    source, folder = pictures(tmp_path / "src"), tmp_path / "dst"
    packed(source, folder)
    os.utime(source / "a" / "0.png", (1, 1))
    changed = begin(source, folder, 8)
    assert changed.notes == (f"starting over: {source} has changed",)
    assert not (folder / MANIFEST).exists()
    assert not list(folder.glob("*.safetensors"))
    changed.lock.release()
    resized = begin(source, folder, 6)
    assert resized.notes == ("starting over: pictures there have a shorter side of 8",)
    resized.lock.release()
    pictures(tmp_path / "other")
    assert begin(tmp_path / "other", folder, 6).notes == (f"starting over: {source} was packed there",)


def test_unusable_source_or_folder_is_rejected(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src")
    packed(source, tmp_path / "dst")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    for given, folder, words in (
        (tmp_path / "missing", tmp_path / "new", "there is no folder"),
        (Path("hf:user/pictures"), tmp_path / "new", "hf:user/pictures is a Hugging Face data set"),
        (tmp_path / "dst", tmp_path / "new", "is already packed"),
        (source, source / "packed", "is inside"),
        (source, tmp_path / "full", "holds other files"),
        (source, tmp_path / "full" / "letter.txt", "is a file"),
    ):
        with pytest.raises(UserError, match=words):
            begin(given, folder, 8)


def test_folders_without_permission_are_rejected_by_name(tmp_path: Path) -> None:
    source = pictures(tmp_path / "closed/src")
    (tmp_path / "closed").chmod(0)
    try:
        for given, folder, message in (
            (source, tmp_path / "dst", f"cannot list {source}: Permission denied"),
            (
                pictures(tmp_path / "src"),
                tmp_path / "closed/dst",
                f"cannot create {tmp_path}/closed/dst: Permission denied",
            ),
        ):
            with no_privileges(), pytest.raises(UserError) as caught:
                begin(given, folder, 8)
            assert caught.value.message == message
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_lock_of_another_user_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "dst"
    folder.mkdir()
    (folder / ".lock").touch(0o444)
    with no_privileges(), pytest.raises(UserError) as caught:
        begin(pictures(tmp_path / "src"), folder, 8)
    assert caught.value.message == f"cannot lock {folder}: no permission for {folder}/.lock"
    assert caught.value.hint == "let its owner make it writable, or pack to another folder"


def test_damaged_picture_is_named(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src")
    damaged = source / "b" / "3.png"
    damaged.write_bytes(damaged.read_bytes()[:60])
    with pytest.raises(UserError, match=str(damaged)):
        packed(source, tmp_path / "dst")
