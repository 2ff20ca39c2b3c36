"""Who reads what when: one global order for each (seed, epoch), cut among virtual workers.

A ticket is epoch × images + image id: it tells a loader worker that outlives epochs which one it reads for.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from accel_train.rng import hash_ids, make_key

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
    """Yields the tickets of a read: those of some micro-batches of process 0, then those of process 1, and so on.

    Cut into equal parts by Accelerate's `split_batches`, these are the next micro-batches of each process, of which
    number m of an update carries the virtual workers m, A+m, 2A+m, … Images at the end of an epoch's order that fill
    no update are left out.

    One iteration goes through all epochs, so that loader workers read on while an epoch is evaluated. Where its last
    read lacks micro-batches, its last one is repeated: nobody takes them.
    """

    drop_last = True

    def __init__(
        self, order: ImageOrder, *, batch_size: int, processes: int, accumulate: int, epochs: int, per_read: int = 1
    ) -> None:
        """Cut an order into updates of `accumulate` micro-batches a process, and read up to `per_read` at a time."""
        self._update_shape = (processes, accumulate, batch_size)
        self._epochs = epochs
        self._updates_per_epoch = order.images // math.prod(self._update_shape)
        self._per_read = max(1, min(per_read, epochs * self._updates_per_epoch * accumulate))
        self.sampler = order
        self.batch_size = processes * self._per_read * batch_size
        self.first_update = 0
        """Of the next iteration, counted from the start of the run: one that is resumed leaves out what was done."""

    def __len__(self) -> int:
        _, accumulate, _ = self._update_shape
        updates = self._epochs * self._updates_per_epoch - self.first_update
        return math.ceil(updates * accumulate / self._per_read)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        micro_batches = self._micro_batches()
        while read := list(islice(micro_batches, self._per_read)):
            read += read[-1:] * (self._per_read - len(read))
            yield np.stack(read, axis=1).ravel()

    def _micro_batches(self) -> Iterator[NDArray[np.int64]]:
        """Yield the tickets of all processes' next micro-batches, a row each."""
        used = self._updates_per_epoch * math.prod(self._update_shape)
        epochs_done, done = divmod(self.first_update, self._updates_per_epoch)
        for epoch in range(epochs_done, self._epochs):
            updates = self.sampler.tickets(epoch)[:used].reshape(-1, *self._update_shape)
            for by_process in updates[done:]:
                yield from by_process.swapaxes(0, 1)
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
