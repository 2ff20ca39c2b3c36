"""The format of a shard: pictures of different sizes in one safetensors file, mapped into memory when read.

Shape suffixes: C channels, H height, W width.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor


class ShardBuilder:
    """Collects pictures and encodes them as one shard."""

    def __init__(self) -> None:
        self._path_hashes: list[int] = []
        self._pixels = bytearray()
        self._offsets: list[int] = []
        self._sizes: list[tuple[int, ...]] = []

    def add(self, picture_HWC: Tensor, path_hash: int) -> None:
        self._path_hashes.append(path_hash)
        self._offsets.append(len(self._pixels))
        self._sizes.append(picture_HWC.shape[:2])
        self._pixels += picture_HWC.numpy().data

    def encode(self) -> bytes:
        heights, widths = torch.tensor(self._sizes, dtype=torch.int32).unbind(1)
        return safetensors.torch.save(
            {
                "pixels": torch.frombuffer(self._pixels, dtype=torch.uint8),
                "offsets": torch.tensor(self._offsets),
                "heights": heights.contiguous(),
                "widths": widths.contiguous(),
                "path_hashes": torch.tensor(self._path_hashes),
            }
        )


class Shard(NamedTuple):
    """The pictures of one file."""

    pixels: Tensor
    """uint8: rows of red, green and blue, picture after picture."""
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    heights: np.ndarray[Any, np.dtype[np.int32]]
    widths: np.ndarray[Any, np.dtype[np.int32]]


class MappedShards:
    """The shards of a split, each mapped on a process's first read of it, so that processes share the page cache."""

    def __init__(self, paths: Sequence[Path], pictures_per_shard: int) -> None:
        self._paths = paths
        self._pictures_per_shard = pictures_per_shard
        self._mapped: dict[int, Shard] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}}  # pickling a mapped tensor would copy it to the other process

    def path_hashes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Read the hash of each picture's path, without mapping the shards."""
        hashes = []
        for path in self._paths:
            with safetensors.safe_open(path, "numpy") as file:
                hashes.append(file.get_tensor("path_hashes"))
        return np.concatenate(hashes)

    def find(self, row: int) -> tuple[Shard, int]:
        """Return the shard that holds a row of the split, and the position within the shard."""
        number, position = divmod(row, self._pictures_per_shard)
        if number not in self._mapped:
            tensors = safetensors.torch.load_file(self._paths[number])
            self._mapped[number] = Shard(
                tensors["pixels"], *(tensors[name].numpy() for name in ("offsets", "heights", "widths"))
            )
        return self._mapped[number], position
