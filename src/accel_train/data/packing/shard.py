"""The format of a shard: pictures of different sizes in one safetensors file, mapped into memory when read.

All but the pixels, which are the last bytes of the file, is the shard's *index*: a few KB with the place, size and
XXH3 hash of each picture. `pack.json` holds the SHA-256 of the index. So what a batch needs can be verified before its
first use at the cost of these pictures alone. To hash whole shards of 67 MB would delay the first batch, whose pictures
are in as many shards, by seconds, and that of a large data set on a slow disk by minutes.

Shape suffixes: C channels, H height, W width.
"""

import hashlib
import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.torch
import torch
import xxhash
from numpy.typing import NDArray
from torch import Tensor

from accel_train.data.packing.manifest import ShardChecksum
from accel_train.errors import LocalError, UserError
from accel_train.loggers.text import quantity

_DTYPES = {
    "pixels": torch.uint8,
    "offsets": torch.int64,
    "heights": torch.int32,
    "widths": torch.int32,
    "checksums": torch.int64,
    "path_hashes": torch.int64,
}


def _checksum(pixels: memoryview) -> int:
    """Return the XXH3 hash of pixels in 64 bits, as the signed number that a tensor holds."""
    return xxhash.xxh3_64_intdigest(pixels) - 2**63


class ShardBuilder:
    """Collects pictures and encodes them as one shard."""

    def __init__(self) -> None:
        self._path_hashes: list[int] = []
        self._pixels = bytearray()
        self._offsets: list[int] = []
        self._checksums: list[int] = []
        self._sizes: list[tuple[int, ...]] = []

    def add(self, picture_HWC: Tensor, path_hash: int) -> None:
        pixels = picture_HWC.numpy().data
        self._path_hashes.append(path_hash)
        self._offsets.append(len(self._pixels))
        self._checksums.append(_checksum(pixels))
        self._sizes.append(picture_HWC.shape[:2])
        self._pixels += pixels

    def encode(self) -> bytes:
        """Return the file; safetensors stores the narrowest dtype, that of the pixels, last."""
        heights, widths = torch.tensor(self._sizes, dtype=torch.int32).unbind(1)
        return safetensors.torch.save(
            {
                "pixels": torch.frombuffer(self._pixels, dtype=torch.uint8),
                "offsets": torch.tensor(self._offsets),
                "heights": heights.contiguous(),
                "widths": widths.contiguous(),
                "checksums": torch.tensor(self._checksums),
                "path_hashes": torch.tensor(self._path_hashes),
            }
        )

    def index_bytes(self, encoded: bytes) -> int:
        """Return the length of the index of the encoded shard."""
        return len(encoded) - len(self._pixels)


@dataclass(frozen=True)
class ShardFile:
    """A file that holds a shard, as the manifest describes it."""

    path: str
    checksum: ShardChecksum
    pictures: int
    modified: int
    """Time in nanoseconds, when the folder was opened."""


class Shard(NamedTuple):
    """The pictures of one file."""

    pixels: Tensor
    """uint8: rows of red, green and blue, picture after picture."""
    offsets: NDArray[np.int64]
    heights: NDArray[np.int32]
    widths: NDArray[np.int32]
    checksums: NDArray[np.int64]
    path_hashes: NDArray[np.int64]

    def is_valid(self, position: int) -> bool:
        """Return whether the pixels of a picture match its checksum."""
        first = int(self.offsets[position])
        count = 3 * int(self.heights[position]) * int(self.widths[position])
        return _checksum(self.pixels.numpy()[first : first + count].data) == int(self.checksums[position])


class MappedShards:
    """The shards of a split, each mapped on a process's first read of it, so that processes share the page cache.

    An index is verified when its shard is mapped, a picture on its first read. Processes that this one forks share the
    notes of what is verified. Call :meth:`check` before each batch: a mapped file that has become shorter would kill
    the process that reads it.
    """

    def __init__(self, files: Sequence[ShardFile], *, per_shard: int, side: int, repair: str) -> None:
        """Pictures have a shorter side of `side` pixels at most; `repair` is the hint for a damaged shard."""
        self._files = files
        self._per_shard = per_shard
        self._side = side
        self._repair = repair
        self._mapped: dict[int, Shard] = {}
        self._modified = [file.modified for file in files]
        self._verified = self._nothing_verified()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}, "_verified": None}  # a pickled map would be a copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._verified = self._nothing_verified()

    def _nothing_verified(self) -> mmap.mmap:
        """Return a byte for each picture, 1 if it is verified, in memory that forked processes share."""
        return mmap.mmap(-1, max(1, sum(file.pictures for file in self._files)))

    def path_hashes(self) -> NDArray[np.int64]:
        """Read the hash of each picture's path, without keeping the shards mapped.

        Raises:
            UserError: a shard is damaged.
        """
        return np.concatenate([self._map(file).path_hashes for file in self._files])

    def shorter_side(self, row: int) -> int:
        """Return a side of the picture in a row of the split.

        Raises:
            UserError: its shard is damaged.
        """
        shard, position = self._find(row)
        return int(min(shard.heights[position], shard.widths[position]))

    def check(self, rows: Iterable[int]) -> None:
        """Look at the files of these rows before they are read: one that has changed is mapped and verified again.

        Raises:
            LocalError: one has another size, or is gone.
        """
        for number in {row // self._per_shard for row in rows}:
            file = self._files[number]
            try:
                status = os.stat(file.path)  # noqa: PTH116 - often; faster than Path's
            except OSError as error:
                raise LocalError(f"cannot read {file.path}: {error.strerror}", self._repair) from None
            if status.st_size != file.checksum.bytes:
                sizes = f"{quantity(status.st_size, 'byte')} instead of {file.checksum.bytes:,}"
                raise LocalError(f"{file.path} has {sizes}", self._repair)
            if status.st_mtime_ns != self._modified[number]:
                self._mapped.pop(number, None)
                first = number * self._per_shard
                self._verified[first : first + file.pictures] = bytes(file.pictures)
                self._modified[number] = status.st_mtime_ns

    def find(self, row: int) -> tuple[Shard, int]:
        """Return the shard that holds the picture in a row of the split, verified, and the position within the shard.

        Raises:
            LocalError: it is damaged.
        """
        try:
            shard, position = self._find(row)
            if not self._verified[row]:
                if not shard.is_valid(position):
                    file = self._files[row // self._per_shard]
                    raise self._damaged(file, f"the XXH3 hash of picture {position} differs")
                self._verified[row] = 1
        except UserError as error:
            raise LocalError(error.message, error.hint) from None
        return shard, position

    def _find(self, row: int) -> tuple[Shard, int]:
        number, position = divmod(row, self._per_shard)
        if number not in self._mapped:
            self._mapped[number] = self._map(self._files[number])
        return self._mapped[number], position

    def _map(self, file: ShardFile) -> Shard:
        try:
            tensors = safetensors.torch.load_file(file.path)
            with Path(file.path).open("rb") as opened:
                index = opened.read(file.checksum.index_bytes)
        except (OSError, safetensors.SafetensorError) as error:
            raise self._damaged(file, str(error)) from None
        if hashlib.sha256(index).hexdigest() != file.checksum.index_sha256:
            raise self._damaged(file, "the sha256 of its index differs")
        if problem := _problem(tensors, file.pictures, self._side):
            raise self._damaged(file, problem)
        # Copies: should the file become shorter later, places and sizes must stay those that were verified.
        return Shard(tensors["pixels"], *(tensors[name].numpy().copy() for name in Shard._fields[1:]))

    def _damaged(self, file: ShardFile, what: str) -> UserError:
        return UserError(f"{file.path} is damaged: {what}", self._repair)


def _problem(tensors: dict[str, Tensor], pictures: int, side: int) -> str | None:
    """Return what is wrong with a shard; its checksums may be those of somebody who made it so."""
    for name, dtype in _DTYPES.items():
        if name not in tensors or tensors[name].dtype != dtype or tensors[name].ndim != 1:
            return f"{name} is not a list of {dtype}"
        if name != "pixels" and len(tensors[name]) != pictures:
            return f"{len(tensors[name])} {name} of {quantity(pictures, 'picture')}"
    offsets, heights, widths = (tensors[name].double() for name in ("offsets", "heights", "widths"))
    shorter = torch.minimum(heights, widths)
    wrong = (shorter < 1) | (shorter > side) | (offsets < 0) | (offsets + 3 * heights * widths > len(tensors["pixels"]))
    if not wrong.any():
        return None
    first = int(wrong.nonzero()[0])
    place = f"{int(heights[first])} × {int(widths[first])} pixels at {int(offsets[first])}"
    return f"picture {first} has {place}, of {quantity(len(tensors['pixels']), 'byte')}"
