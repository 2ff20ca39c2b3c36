"""Manifests survive the way to disk, and unreadable ones are rejected."""

from dataclasses import replace
from pathlib import Path

import pytest

from accel_train.data.packing.manifest import MANIFEST, UNFINISHED, Manifest, ShardChecksum, is_packed, read_manifest
from accel_train.errors import UserError

EXAMPLE = Manifest(
    source="/pictures of mine",
    fingerprint="f",
    side=256,
    classes=["a", "b"],
    splits={"train": [300, 213], "val": [1, 0]},
    pictures_per_shard=256,
    shards={"train-00000.safetensors": ShardChecksum("aa", 7)},
)


def test_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    EXAMPLE.write(tmp_path / MANIFEST)
    assert read_manifest(tmp_path / MANIFEST) == EXAMPLE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot read"),
        ('{"format": 99}', "has format 99, this version reads 2"),
        ('{"format": 1}', "has format 1, this version reads 2"),
    ],
)
def test_unreadable_manifest_is_rejected(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UserError, match=words) as caught:
        read_manifest(tmp_path / MANIFEST)
    assert caught.value.hint == f"remove {tmp_path} and pack it again"


@pytest.mark.parametrize("name", [MANIFEST, UNFINISHED])
def test_folder_with_a_manifest_is_packed(tmp_path: Path, name: str) -> None:
    assert not is_packed(tmp_path)
    EXAMPLE.write(tmp_path / name)
    assert is_packed(tmp_path)


def test_last_shard_of_a_split_may_be_short() -> None:
    assert EXAMPLE.shard_names("train") == [f"train-0000{n}.safetensors" for n in range(3)]
    assert EXAMPLE.shard_names("val") == ["val-00000.safetensors"]


def test_manifests_of_the_same_pictures_may_differ_in_finished_shards() -> None:
    assert EXAMPLE.has_same_pictures(replace(EXAMPLE, shards={}))
    assert not EXAMPLE.has_same_pictures(replace(EXAMPLE, side=224))


def test_command_is_quoted_for_the_shell() -> None:
    assert EXAMPLE.command(Path("dst")) == "accel_train pack '/pictures of mine' dst --side 256"
