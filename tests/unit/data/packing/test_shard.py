"""Shards return the pictures that were stored, mapped into memory and never copied or pickled."""

import pickle
from pathlib import Path

import torch
from torch import Tensor

from accel_train.data.packing.shard import MappedShards, ShardBuilder
from accel_train.data.packing.source import PackedSource
from accel_train.data.sources.base import View


def five_pictures() -> list[Tensor]:
    """Return pictures_HWC of different sizes."""
    return [torch.randint(0, 256, (6 + n, 9 - n, 3), dtype=torch.uint8) for n in range(5)]


def write(folder: Path, pictures: list[Tensor], per_shard: int) -> list[Path]:
    paths = []
    for first in range(0, len(pictures), per_shard):
        builder = ShardBuilder()
        for number, picture in enumerate(pictures[first : first + per_shard], first):
            builder.add(picture, path_hash=-number)
        paths.append(folder / f"{first}.safetensors")
        paths[-1].write_bytes(builder.encode())
    return paths


def test_rows_are_found_in_the_shard_that_holds_them(tmp_path: Path) -> None:
    pictures = five_pictures()
    shards = MappedShards(write(tmp_path, pictures, per_shard=2), 2)
    for row in (4, 0, 3, 1, 2):
        shard, position = shards.find(row)
        height, width, first = (int(x[position]) for x in (shard.heights, shard.widths, shard.offsets))
        stored = shard.pixels[first : first + 3 * height * width].view(height, width, 3)
        assert stored.equal(pictures[row])
    assert shards.path_hashes().tolist() == [0, -1, -2, -3, -4]


def test_shards_are_mapped_on_first_read_and_not_pickled(tmp_path: Path) -> None:
    pictures = [torch.randint(0, 256, (60, 80, 3), dtype=torch.uint8) for _ in range(5)]
    (path,) = write(tmp_path, pictures, per_shard=5)
    source = PackedSource(("a", "b"), MappedShards([path], 5), torch.arange(5), torch.arange(5) % 2, ("aa",))
    view = View(24, random_crop=False)
    assert source.path_hashes.tolist() == [0, -1, -2, -3, -4]
    assert str(path) not in Path("/proc/self/maps").read_text()
    images, labels = source.read([0, 4], None, view)
    assert str(path) in Path("/proc/self/maps").read_text()
    pickled = pickle.dumps(source)
    assert len(pickled) < 10_000
    again, same = pickle.loads(pickled).read([0, 4], None, view)
    assert again.equal(images)
    assert same.equal(labels)
