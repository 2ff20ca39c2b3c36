"""All shards of a packed folder are verified; those that are missing count as damaged."""

from pathlib import Path

import pytest
from PIL import Image

from accel_train.data.packing import pack as packing
from accel_train.data.packing.manifest import MANIFEST, UNFINISHED
from accel_train.data.packing.pack import begin, pack
from accel_train.data.packing.verify import damaged_shards


def test_damaged_missing_and_unfinished_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_PICTURES_PER_SHARD", 2)
    source, folder = tmp_path / "src", tmp_path / "dst"
    for name in "ab":
        (source / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (4, 4)).save(source / name / f"{number}.png")
    begun = begin(source, folder, 8)
    list(pack(begun, 1))
    begun.lock.release()
    command = f"accel_train pack {source} {folder} --side 8"
    assert damaged_shards(folder) == ([], 3, command)
    (folder / "all-00000.safetensors").unlink()
    shard = folder / "all-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    expected = ["all-00000.safetensors", "all-00002.safetensors"]
    assert damaged_shards(folder) == (expected, 3, command)
    (folder / MANIFEST).rename(folder / UNFINISHED)
    assert damaged_shards(folder) == (expected, 3, command)
