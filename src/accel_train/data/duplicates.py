"""Finds images that are in two splits: of the same bytes, or of nearly the same perceptual hash."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel_train.data.examine import Examined

MOST_DIFFERENT_BITS = 4
"""Of the 64 bits of the perceptual hashes of two images that look alike."""
_BITS = 64
_PARTS = MOST_DIFFERENT_BITS + 1
"""Two hashes that differ in fewer bits than they have parts have an equal part."""


class Pair(NamedTuple):
    """Two images of different splits: the split and the number of each."""

    first: tuple[str, int]
    second: tuple[str, int]


def same_bytes(splits: Mapping[str, Sequence[Examined]]) -> Iterator[Pair]:
    """Yield each image whose bytes an earlier split contains too, with the first image there."""
    for one, other in combinations(splits, 2):
        known: dict[bytes, int] = {}
        for number, image in enumerate(splits[one]):
            known.setdefault(image.digest, number)
        for number, image in enumerate(splits[other]):
            if image.digest and image.digest in known:
                yield Pair((one, known[image.digest]), (other, number))


def alike(splits: Mapping[str, Sequence[Examined]]) -> Iterator[Pair]:
    """Yield each image that looks like one of an earlier split, of other bytes, with the most similar image there."""
    for one, other in combinations(splits, 2):
        numbers, hashes = _hashes(splits[one])
        parts = [_Part(hashes, part) for part in range(_PARTS)]
        for number, image in enumerate(splits[other]):
            if image.likeness is None or not len(hashes):
                continue
            candidates = np.concatenate([part.equal_to(image.likeness) for part in parts])
            different = _count_bits(hashes[candidates] ^ np.uint64(image.likeness))
            for position in np.argsort(different, kind="stable").tolist():
                if different[position] > MOST_DIFFERENT_BITS:
                    break
                found = int(numbers[candidates[position]])
                if splits[one][found].digest != image.digest:
                    yield Pair((one, found), (other, number))
                    break


class _Part:
    """Some bits of many hashes, in order, so that those equal to others are found."""

    def __init__(self, hashes: NDArray[np.uint64], part: int) -> None:
        first, last = part * _BITS // _PARTS, (part + 1) * _BITS // _PARTS
        self._shift, self._mask = np.uint64(first), np.uint64((1 << (last - first)) - 1)
        bits = (hashes >> self._shift) & self._mask
        self._order = np.argsort(bits, kind="stable")
        self._sorted = bits[self._order]

    def equal_to(self, likeness: int) -> NDArray[np.int64]:
        """Return the positions of the hashes with the same part."""
        bits = (np.uint64(likeness) >> self._shift) & self._mask
        return self._order[slice(*np.searchsorted(self._sorted, [bits, bits + np.uint64(1)]))]


def _hashes(images: Sequence[Examined]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the numbers and perceptual hashes of the images that have one."""
    found = [(number, image.likeness) for number, image in enumerate(images) if image.likeness is not None]
    numbers, hashes = zip(*found, strict=True) if found else ((), ())
    return np.array(numbers, np.int64), np.array(hashes, np.uint64)


def _count_bits(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1)
    counts: NDArray[np.int64] = bits.sum(axis=1, dtype=np.int64)
    return counts
