"""Draws training images so that every class is equally frequent in each epoch.

The images of a class form an endless stream: all of them in a random order, then all in another order, and so on. An
epoch takes the next part of every stream. So all images of a class are equally frequent, too.

Shape suffixes: N images of the source.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accel_train.rng import hash_ids, make_key


@dataclass(frozen=True)
class BalancedDraws:
    """The images that each epoch draws; those of an epoch follow from the seed and its number alone."""

    seed: int
    labels_N: NDArray[np.int64]

    def sample_indices(self, epoch: int, draws: int) -> NDArray[np.int64]:
        """Return the sample indices of an epoch of this many draws, counted from 0, by class."""
        count = len(self._ids_by_class)
        parts = []
        for number, ids in enumerate(self._ids_by_class):
            # The floors of the shares of all classes add up to the draws (Hermite's identity).
            start, end = ((before * draws + number) // count for before in (epoch, epoch + 1))
            parts.append(self._stream(ids, start, end))
        return np.concatenate(parts)

    def _stream(self, ids: NDArray[np.int64], start: int, end: int) -> NDArray[np.int64]:
        """Return part of the stream of a class; each pass over its images has sample indices of its own."""
        first, last = start // len(ids), -(-end // len(ids))
        indices = np.arange(first, last)[:, None] * len(self.labels_N) + ids
        order = np.argsort(hash_ids(make_key(self.seed, "balance"), indices), axis=1)
        return np.take_along_axis(indices, order, axis=1).ravel()[start - first * len(ids) : end - first * len(ids)]

    @cached_property
    def _ids_by_class(self) -> list[NDArray[np.int64]]:
        """The images of each class that has any."""
        by_class = np.argsort(self.labels_N, kind="stable")
        counts = np.bincount(self.labels_N)
        return np.split(by_class, np.cumsum(counts[counts > 0])[:-1])
