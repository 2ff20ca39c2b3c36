"""Manifests survive the way to disk, and unreadable ones are rejected."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (
            {"shards": {"../../precious.txt": {"sha256": "aa", "bytes": 7}}},
            "'../../precious.txt' is no name of a shard",
        ),
        ({"shards": {"/etc/passwd": {"sha256": "aa", "bytes": 7}}}, "'/etc/passwd' is no name of a shard"),
        ({"shards": {"train-00000.safetensors\n": {"sha256": "aa", "bytes": 7}}}, "is no name of a shard"),
        ({"shards": {"pack.json": {"sha256": "aa", "bytes": 7}}}, "'pack.json' is no name of a shard"),
        (
            {"shards": {"train-00000.safetensors": {"sha256": 5, "bytes": 7}}},
            "has the checksum",
        ),
        ({"shards": {"train-00000.safetensors": {"sha256": "a", "bytes": "7"}}}, "has the checksum"),
        ({"splits": {"train": [1, 2]}}, "the splits are train"),
        ({"splits": {"../x": [1, 2]}}, "the splits are ../x"),
        ({"splits": {"all": [1]}}, "all has [1] pictures in 2 classes"),
        ({"splits": {"all": [1, -2]}}, "all has [1, -2] pictures in 2 classes"),
        ({"splits": {"all": [1, "2"]}}, "all has [1, '2'] pictures in 2 classes"),
        ({"classes": ["a", 5]}, "a name is no text"),
        ({"source": None}, "a name is no text"),
        ({"side": "256"}, "side is '256' and pictures_per_shard is 256"),
        ({"pictures_per_shard": 0}, "side is 256 and pictures_per_shard is 0"),
        ({"pictures_per_shard": True}, "pictures_per_shard is True"),
    ],
)
def test_value_that_cannot_be_right_is_rejected(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(asdict(EXAMPLE) | changed))
    with pytest.raises(UserError) as caught:
        read_manifest(tmp_path / MANIFEST)
    assert caught.value.message.startswith(f"cannot read {tmp_path / MANIFEST}: ")
    assert problem in caught.value.message


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
