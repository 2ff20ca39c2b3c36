"""Finds the pictures that cannot be read: decodes all of them, in parallel."""

import math
import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from accel_train.data.images.crops import Box
from accel_train.data.images.decode import decode_window
from accel_train.data.sources.encoded_images import TableSource
from accel_train.data.sources.picture_files import FolderSource, open_at_once
from accel_train.system.worker_signals import serve_parent

_PICTURES_PER_REPORT = 16
_PICTURES_PER_WORKER = 64
"""Fewer take less time than starting a worker."""
_COMMON = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*", b"P5", b"P6")
"""First bytes of most pictures."""
_COMMON_BRANDS = (b"ftypavif", b"ftypheic", b"ftypmif1")
_HEADER_SECONDS = 0.5
"""A file in the page cache takes 10 µs on an AMD EPYC, and a hundred times as long on a busy network disk."""


class Pictures:
    """The encoded pictures of some sources, one after another."""

    def __init__(self, sources: Sequence[FolderSource | TableSource]) -> None:
        self._sources = sources
        self._ends = list(accumulate(map(len, sources)))

    def __len__(self) -> int:
        return self._ends[-1]

    def find(self, index: int) -> tuple[FolderSource | TableSource, int]:
        """Return the source of a picture, and its id there."""
        number = bisect_right(self._ends, index)
        return self._sources[number], index - (self._ends[number - 1] if number else 0)

    def kept(self, bad: Collection[int]) -> list[NDArray[np.int64]]:
        """Return the ids of the pictures of each source, without some."""
        starts = [end - len(source) for end, source in zip(self._ends, self._sources, strict=True)]
        return [
            np.array([image_id for image_id in range(len(source)) if start + image_id not in bad], np.int64)
            for start, source in zip(starts, self._sources, strict=True)
        ]

    def name(self, index: int) -> str:
        """Return the path of a picture, or its row."""
        source, image_id = self.find(index)
        return source.path(image_id) if isinstance(source, FolderSource) else source.place(image_id)


@dataclass(frozen=True)
class BadImage:
    """A picture that cannot be read."""

    index: int
    reason: str


@dataclass(frozen=True)
class Checked:
    """Some pictures that have been checked."""

    bad: tuple[BadImage, ...]
    sizes: tuple[tuple[int, int], ...]
    """Height and width of each; 0 if they are unknown."""


class _Checker(Dataset[Checked]):
    """Decodes some of the pictures."""

    def __init__(self, pictures: Pictures, indices: Sequence[int], most_pixels: int) -> None:
        self._pictures = pictures
        self._indices = indices
        self._most_pixels = most_pixels

    def __len__(self) -> int:
        return math.ceil(len(self._indices) / _PICTURES_PER_REPORT)

    def __getitem__(self, part: int) -> Checked:
        indices = self._indices[part * _PICTURES_PER_REPORT : (part + 1) * _PICTURES_PER_REPORT]
        found = [(index, *_problem(self._pictures, index, self._most_pixels)) for index in indices]
        bad = tuple(BadImage(index, reason) for index, reason, _ in found if reason is not None)
        return Checked(bad, tuple(size for _, _, size in found))


def check_pictures(pictures: Pictures, indices: Sequence[int], most_pixels: int, workers: int) -> Iterator[Checked]:
    """Decode pictures in worker processes, or in this one if there are none; yield what is found, in any order."""
    checker = _Checker(pictures, indices, most_pixels)
    yield from DataLoader(
        checker,
        batch_size=None,
        num_workers=min(workers, len(checker)),
        in_order=False,
        worker_init_fn=serve_parent,
    )


def workers_for(pictures: int, cores: int) -> int:
    """Return how many workers are worth their start."""
    return min(cores, pictures // _PICTURES_PER_WORKER)


def header_problems(pictures: Pictures, indices: Sequence[int], most_pixels: int) -> Iterator[BadImage]:
    """Yield files that cannot be read, if their first bytes show it; look for half a second at most."""
    deadline = time.monotonic() + _HEADER_SECONDS
    for index in indices:
        if time.monotonic() > deadline:
            return
        source, image_id = pictures.find(index)
        if isinstance(source, FolderSource) and not _begins_well(source.path(image_id)):
            reason, _ = _problem(pictures, index, most_pixels)
            if reason is not None:
                yield BadImage(index, reason)


def _problem(pictures: Pictures, index: int, most_pixels: int) -> tuple[str | None, tuple[int, int]]:
    """Return why a picture cannot be read, or None; and its height and width.

    A JPEG is decoded at 1/8 of its size: its coded pixels are verified as they are at full size.
    """
    size = 0, 0

    def whole(height: int, width: int) -> Box:
        nonlocal size
        size = height, width
        return 0, 0, height, width

    source, image_id = pictures.find(index)
    try:
        decode_window(source.encoded(image_id), whole, 1, most_pixels)
    except Exception as error:  # damaged bytes make decoders raise any type
        return str(error), size
    return None, size


def _begins_well(path: str) -> bool:
    """Return whether a file begins as most pictures do; others may be pictures, too."""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            first = file.read(12)
    except OSError:
        return False
    return first.startswith(_COMMON) or first.endswith(_COMMON_BRANDS)
