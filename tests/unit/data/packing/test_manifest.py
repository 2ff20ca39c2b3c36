"""Manifests survive the way to disk, and unreadable ones are rejected."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from accel_train.data.packing.manifest import MANIFEST, UNFINISHED, Manifest, ShardChecksum, is_packed, read_manifest
from accel_train.errors import UserError

SHA = "0123456789abcdef" * 4
CHECKSUM = {"sha256": SHA, "bytes": 7, "index_sha256": SHA, "index_bytes": 3}
EXAMPLE = Manifest(
    source="/pictures of mine",
    fingerprint=SHA,
    side=256,
    classes=["a", "b"],
    splits={"train": [300, 213], "val": [1, 0]},
    pictures_per_shard=256,
    shards={"train-00000.safetensors": ShardChecksum(SHA, 7, SHA, 3)},
)


def refusal(path: Path) -> str:
    """Return what is wrong with a manifest."""
    with pytest.raises(UserError) as caught:
        read_manifest(path)
    assert caught.value.hint == f"remove {path.parent} and pack it again"
    return caught.value.message


def shards(name: str = "train-00000.safetensors", **changed: Any) -> dict[str, Any]:
    return {"shards": {name: CHECKSUM | changed}}


def test_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    for manifest in (EXAMPLE, replace(EXAMPLE, source="/\udcff", classes=["\udcfe", "猫"])):
        manifest.write(tmp_path / MANIFEST)
        assert read_manifest(tmp_path / MANIFEST) == manifest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is damaged: Expecting property name"),
        ("[]", "is damaged: it has no format"),
        ('{"format": 99}', "has format 99, this version reads 3"),
        ('{"format": 2}', "has format 2, this version reads 3"),
        ('{"format": true}', "has format True, this version reads 3"),
    ],
)
def test_unreadable_manifest_is_rejected(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    assert refusal(tmp_path / MANIFEST).startswith(f"{tmp_path / MANIFEST} {words}")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (shards("../../precious.txt"), "'../../precious.txt' is no name of a shard"),
        (shards("/etc/passwd"), "'/etc/passwd' is no name of a shard"),
        (shards("train-00000.safetensors\n"), r"'train-00000.safetensors\n' is no name of a shard"),
        (shards("pack.json"), "'pack.json' is no name of a shard"),
        (shards("all-00000.safetensors"), "all-00000.safetensors is a shard of no pictures"),
        (shards("train-00003.safetensors"), "train-00003.safetensors is a shard of no pictures"),
        (shards("train-000000.safetensors"), "train-000000.safetensors is a shard of no pictures"),
        (shards(sha256=5), "shards.train-00000.safetensors.sha256 is 5: input should be a valid string"),
        (shards(sha256="aa"), "shards.train-00000.safetensors.sha256 is 'aa': string should match pattern"),
        (shards(index_sha256=SHA + "\n"), "shards.train-00000.safetensors.index_sha256 is"),
        (shards(bytes="7"), "shards.train-00000.safetensors.bytes is '7': must be a whole number"),
        (
            shards(index_bytes=2**60),
            "shards.train-00000.safetensors.index_bytes is 1152921504606846976: must be at most",
        ),
        (shards(more=1), "shards.train-00000.safetensors.more is unknown"),
        ({"shards": {"train-00000.safetensors": {"bytes": 7}}}, "shards.train-00000.safetensors.sha256 is missing"),
        ({"shards": []}, "shards is []: input should be a valid dictionary"),
        ({"splits": {"train": [1, 2]}}, "the splits are 'train'"),
        ({"splits": {"../x": [1, 2]}}, "the splits are '../x'"),
        ({"splits": {"all": [1]}}, "all has [1] pictures in 2 classes"),
        ({"splits": {"all": [1, -2]}}, "splits.all.1 is -2: must be at least 0"),
        ({"splits": {"all": [1, "2"]}}, "splits.all.1 is '2': must be a whole number"),
        ({"classes": ["a", 5]}, "classes.1 is 5: input should be a valid string"),
        ({"source": None}, "source is None: input should be a valid string"),
        ({"fingerprint": "f"}, "fingerprint is 'f': string should match pattern"),
        ({"side": "256"}, "side is '256': must be a whole number"),
        ({"pictures_per_shard": 0}, "pictures_per_shard is 0: must be at least 1"),
        ({"pictures_per_shard": True}, "pictures_per_shard is True: must be a whole number"),
        ({"more": "\x1b[31m"}, "more is unknown"),
    ],
)
def test_value_that_cannot_be_right_is_rejected(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(asdict(EXAMPLE) | changed))
    assert refusal(tmp_path / MANIFEST).startswith(f"{tmp_path / MANIFEST} is damaged: {problem}")


@pytest.mark.timeout(10)
def test_manifest_that_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / MANIFEST)
    assert refusal(tmp_path / MANIFEST) == f"cannot read {tmp_path / MANIFEST}: it is a FIFO"


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
