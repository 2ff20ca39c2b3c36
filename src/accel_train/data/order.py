"""Who reads what when: one global order for each (seed, epoch), cut among virtual workers.

A ticket is epoch × images + image id: it tells a loader worker that outlives epochs which one it reads for.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel_train.random_keys import hash_ids, make_key

PADDING = -1
"""Stands in for an image where a process has none left to evaluate."""


@dataclass(frozen=True)
class ImageOrder:
    """The order in which each epoch goes through the images."""

    seed: int
    images: int

    def tickets(self, epoch: int) -> NDArray[np.int64]:
        """Return the tickets of an epoch, counted from 0, in order, each image once."""
        hashes = hash_ids(make_key(self.seed, "order", epoch), np.arange(self.images))
        return epoch * self.images + np.argsort(hashes)  # no two are equal: the hash is one-to-one


class UpdateSampler:
    """Yields, for micro-batch m of every update, the tickets of the virtual workers m, A+m, 2A+m, …

    Cut into equal parts by Accelerate's `split_batches`, these are micro-batch m of each process. Images
    at the end of an epoch's order that fill no update are left out.

    One iteration goes through all epochs, so that loader workers read on while an epoch is evaluated.
    """

    drop_last = True

    def __init__(self, order: ImageOrder, *, batch_size: int, processes: int, accumulate: int, epochs: int) -> None:
        self.sampler = order
        self.batch_size = batch_size * processes
        self.first_update = 0
        """Of the next iteration, counted from the start of the run: one that is resumed leaves out what was done."""
        self._shape = (processes, accumulate, batch_size)
        self._epochs = epochs
        self._updates_per_epoch = order.images // (self.batch_size * accumulate)

    def __len__(self) -> int:
        return (self._epochs * self._updates_per_epoch - self.first_update) * self._shape[1]

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        processes, accumulate, batch_size = self._shape
        used = self._updates_per_epoch * processes * accumulate * batch_size
        epochs_done, done = divmod(self.first_update, self._updates_per_epoch)
        for epoch in range(epochs_done, self._epochs):
            updates = self.sampler.tickets(epoch)[:used].reshape(-1, processes, accumulate, batch_size)
            for by_process in updates[done:]:
                for micro_batch in range(accumulate):
                    yield by_process[:, micro_batch].ravel()
            done = 0


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
