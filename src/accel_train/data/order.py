"""Who reads what when: one global order for each (seed, epoch), cut among virtual workers.

A ticket is epoch × images + image id: it tells a loader worker that outlives epochs which one it reads for.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from accel_train.random_keys import hash_ids, make_key

PADDING = -1
"""Stands in for an image where a process has none left to evaluate."""


class EpochOrder:
    """The order of the images of an epoch.

    Accelerate's wrappers find :meth:`set_epoch` only on an object at `batch_sampler.sampler`.
    """

    def __init__(self, seed: int, images: int) -> None:
        self.seed = seed
        self.images = images
        self.epoch = 0
        self.first_update = 0
        """Of the next iteration, counted within the epoch: a run that is resumed leaves out what was done."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, counted from 0, of the next iteration."""
        self.epoch = epoch

    def tickets(self) -> NDArray[np.int64]:
        """Return the tickets of the epoch in order, each image once."""
        hashes = hash_ids(make_key(self.seed, "order", self.epoch), np.arange(self.images))
        return self.epoch * self.images + np.argsort(hashes)  # no two are equal: the hash is one-to-one


class UpdateSampler:
    """Yields, for micro-batch m of every update, the tickets of the virtual workers m, A+m, 2A+m, …

    Cut into equal parts by Accelerate's `split_batches`, these are micro-batch m of each process. Images
    at the end of the order that fill no update are left out.
    """

    drop_last = True

    def __init__(self, order: EpochOrder, *, batch_size: int, processes: int, accumulate: int) -> None:
        self.sampler = order
        self.batch_size = batch_size * processes
        self._shape = (processes, accumulate, batch_size)
        self._updates = order.images // (self.batch_size * accumulate)

    def __len__(self) -> int:
        return self._updates * self._shape[1]

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        processes, accumulate, batch_size = self._shape
        used = self._updates * processes * accumulate * batch_size
        updates = self.sampler.tickets()[:used].reshape(-1, processes, accumulate, batch_size)
        for by_process in updates[self.sampler.first_update :]:
            for micro_batch in range(accumulate):
                yield by_process[:, micro_batch].ravel()


class EvaluationSampler:
    """Yields every image id once, in order, padded so that all processes get equally many full batches.

    No process then leaves the others alone in a forward pass that all must take part in.
    """

    drop_last = True

    def __init__(self, images: int, *, batch_size: int, processes: int) -> None:
        self.sampler = range(images)
        self.batch_size = batch_size * processes

    def __len__(self) -> int:
        return math.ceil(len(self.sampler) / self.batch_size)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, len(self.sampler), self.batch_size):
            ids = np.arange(start, start + self.batch_size)
            yield np.where(ids < len(self.sampler), ids, PADDING)
