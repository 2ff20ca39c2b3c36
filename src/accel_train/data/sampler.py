"""Which images each micro-batch reads: one global order for each (seed, epoch), cut among processes.

A sample index is pass × images + image id, so that each use of an image has random numbers of its own, also in a
loader worker, which outlives epochs. The pass is the epoch, unless images are repeated or drawn by class.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from accel_train.data.balanced_draws import BalancedDraws
from accel_train.rng import hash_ids, make_key

PADDING = -1
"""Image id that fills up the evaluation batches of a process that has no images left."""


@dataclass(frozen=True)
class ImageOrder:
    """The order of the training images in each epoch."""

    seed: int
    images: int
    repeats: int = 1
    """Times that each image of an epoch is used in a row; an epoch keeps its length, and has fewer images."""
    balanced: BalancedDraws | None = None
    """Draws the images of an epoch; None: each image once."""

    def sample_indices(self, epoch: int) -> NDArray[np.int64]:
        """Return the sample indices of an epoch, counted from 0, in order."""
        used = math.ceil(self.images / self.repeats)
        hashes = hash_ids(make_key(self.seed, "order", epoch), np.arange(used if self.balanced else self.images))
        order = np.argsort(hashes)[:used]  # no ties: the hash is one-to-one
        if self.balanced:
            order = self.balanced.sample_indices(epoch, used)[order]
        else:
            order += epoch * self.images
        passes, ids = np.divmod(order, self.images)
        repeated = (passes[:, None] * self.repeats + np.arange(self.repeats)) * self.images + ids[:, None]
        return repeated.ravel()[: self.images]


class UpdateSampler:
    """Yields the sample indices of one read: the next micro-batches of process 0, then those of process 1, and so on.

    Accelerate's `split_batches` cuts a read into one equal part per process. Micro-batch m of a replica of the model
    is the m-th of its block of the update's micro-batches; all stages of a replica read the same. The incomplete last
    update of an epoch's order is dropped. If images are repeated, the micro-batches of an update take turns, so that
    the copies of an image are in different ones.

    One iteration covers all epochs, so that loader workers keep reading while an epoch is evaluated. The last
    micro-batch is repeated for a replica that has fewer than others, and if some are missing from the last read; the
    training loop does not use the repeats.
    """

    drop_last = True

    def __init__(
        self,
        order: ImageOrder,
        *,
        batch_size: int,
        blocks: Sequence[range],
        stages: int = 1,
        epochs: int,
        per_read: int = 1,
    ) -> None:
        """Make updates of a block of micro-batches per replica, and reads of up to `per_read` of each process."""
        self._update_shape = (blocks[-1].stop, batch_size)
        most = max(map(len, blocks))
        self._reads = [[block[min(m, len(block) - 1)] for block in blocks for _ in range(stages)] for m in range(most)]
        self._epochs = epochs
        self._updates_per_epoch = order.images // math.prod(self._update_shape)
        self._per_read = max(1, min(per_read, epochs * self._updates_per_epoch * most))
        self.sampler = order
        self.batch_size = len(blocks) * stages * self._per_read * batch_size
        self.first_update = 0
        """Where the next iteration starts, counted from the start of the run; set it to resume a run."""

    def __len__(self) -> int:
        updates = self._epochs * self._updates_per_epoch - self.first_update
        return math.ceil(updates * len(self._reads) / self._per_read)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        micro_batches = self._micro_batches()
        while read := list(islice(micro_batches, self._per_read)):
            read += read[-1:] * (self._per_read - len(read))
            yield np.stack(read, axis=1).ravel()

    def _micro_batches(self) -> Iterator[NDArray[np.int64]]:
        """Yield the sample indices of the next micro-batch of every process, one row per process."""
        used = self._updates_per_epoch * math.prod(self._update_shape)
        epochs_done, done = divmod(self.first_update, self._updates_per_epoch)
        for epoch in range(epochs_done, self._epochs):
            updates = self._updates(self.sampler.sample_indices(epoch)[:used])
            for update in updates[done:]:
                yield from (update[of_processes] for of_processes in self._reads)
            done = 0

    def _updates(self, sample_indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Divide an epoch into updates, and these into micro-batches."""
        if self.sampler.repeats == 1:
            return sample_indices.reshape(-1, *self._update_shape)
        return sample_indices.reshape(-1, *reversed(self._update_shape)).swapaxes(1, 2)


class EvaluationSampler:
    """Yields every image id once, in order, padded so that all processes get the same number of full batches.

    The forward pass may be collective: every process must take part in it equally often.
    """

    drop_last = True

    def __init__(self, images: int, *, batch_size: int, replicas: int, stages: int = 1) -> None:
        self.sampler = range(images)
        self.batch_size = batch_size * replicas * stages
        self._read_shape = (replicas, batch_size)
        self._stages = stages

    def __len__(self) -> int:
        return math.ceil(len(self.sampler) / math.prod(self._read_shape))

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        size = math.prod(self._read_shape)
        for start in range(0, len(self.sampler), size):
            ids = np.arange(start, start + size)
            of_replicas = np.where(ids < len(self.sampler), ids, PADDING).reshape(self._read_shape)
            yield of_replicas.repeat(self._stages, axis=0).ravel()
