"""DataLoaders that read a whole batch at once."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from accel_train.data.sampler import EvaluationSampler, ImageOrder, UpdateSampler
from accel_train.data.sources.base import Ids, Source
from accel_train.data.worker_batches import Batch, Handover
from accel_train.errors import LocalError
from accel_train.rng import hash_ids, make_key
from accel_train.system.worker_signals import serve_parent

_MOST_WORKERS = 8
_AHEAD = 4
"""Batches that are read before they are asked for, at least; and two a worker."""
_READ_BYTES = 2 << 20
"""Of the model's images, that are read and augmented at once where reading is an index_select.

Each operation has a price of its own: eight batches of 64 FashionMNIST images together take a quarter of what they
take one by one (see benchmarks/README.md).
"""
_SECONDS_TO_READ_ON = 0.0005
"""Before a worker lets its thread that hands over a batch have its turn; Python's own 5 ms would be waited for."""


class TrainReader(Dataset[Batch]):
    """Reads the images of some tickets, each with a random key of its own."""

    def __init__(self, source: Source, seed: int) -> None:
        self._source = source
        self._key = make_key(seed, "read")

    def __getitems__(self, tickets_B: NDArray[np.int64]) -> Batch | LocalError:
        keys_B = None if self._source.in_memory else hash_ids(self._key, tickets_B)
        return _read(self._source, tickets_B % len(self._source), keys_B, tickets_B)


class EvaluationReader(Dataset[Batch]):
    """Reads the images of some ids; PADDING gets the first image, which then must not count."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getitems__(self, ids_B: NDArray[np.int64]) -> Batch | LocalError:
        return _read(self._source, ids_B.clip(min=0), None, ids_B)


def _read(source: Source, ids_B: Ids, keys_B: Ids | None, tickets_B: NDArray[np.int64]) -> Batch | LocalError:
    """Return an error as a value: raised in a worker process it would arrive as a traceback in a string."""
    try:
        return Batch(*source.read(ids_B, keys_B), torch.from_numpy(tickets_B))
    except LocalError as error:
        return error


@dataclass(frozen=True)
class LoaderSizes:
    """How batches are cut and who reads them."""

    batch_size: int
    """Images per process."""
    processes: int
    workers: int
    """Worker processes of each process."""
    pin_memory: bool


def choose_workers(asked: str, source: Source, *, cores: int, on_cpu: bool) -> int:
    """Return how many workers read for a process that has a share of so many cores.

    auto: none read from memory. From files all cores but one read for a GPU; where the CPU computes too, one in
    four does.
    """
    if asked != "auto":
        return int(asked)
    if source.in_memory:
        return 0
    return max(1, min(_MOST_WORKERS, cores // 4 if on_cpu else cores - 1))


def micro_batches_per_read(source: Source, batch_bytes: int) -> int:
    """Return how many micro-batches, of so many bytes as the model takes them, to read at a time."""
    return max(1, _READ_BYTES // batch_bytes) if source.in_memory else 1


def train_loader(
    source: Source, sizes: LoaderSizes, order: ImageOrder, *, accumulate: int, epochs: int, per_read: int = 1
) -> tuple[DataLoader[Batch], UpdateSampler]:
    """Return a loader of all processes' micro-batches of all epochs, for Accelerate to split, and its sampler.

    What it yields are `per_read` micro-batches each.
    """
    sampler = UpdateSampler(
        order,
        batch_size=sizes.batch_size,
        processes=sizes.processes,
        accumulate=accumulate,
        epochs=epochs,
        per_read=per_read,
    )
    return _loader(TrainReader(source, order.seed), sampler, sizes), sampler


def evaluation_loader(source: Source, sizes: LoaderSizes) -> DataLoader[Batch]:
    """Return a loader of all processes' evaluation batches, for Accelerate to split."""
    sampler = EvaluationSampler(len(source), batch_size=sizes.batch_size, processes=sizes.processes)
    return _loader(EvaluationReader(source), sampler, sizes)


def _loader(
    reader: TrainReader | EvaluationReader, sampler: UpdateSampler | EvaluationSampler, sizes: LoaderSizes
) -> DataLoader[Batch]:
    ahead = max(2, _AHEAD // max(1, sizes.workers))
    return DataLoader(
        reader,
        batch_sampler=sampler,  # type: ignore[arg-type]  # of arrays, which torch and Accelerate take like lists
        collate_fn=Handover(ahead),
        num_workers=sizes.workers,
        persistent_workers=sizes.workers > 0,
        prefetch_factor=ahead if sizes.workers else None,
        worker_init_fn=_begin_worker,
        pin_memory=sizes.pin_memory,
    )


def _begin_worker(worker_id: int) -> None:
    serve_parent(worker_id)
    sys.setswitchinterval(_SECONDS_TO_READ_ON)


def batches(loader: Iterable[Batch | LocalError]) -> Iterator[Batch]:
    """Iterate over a loader, raising what went wrong in reading.

    The images of a batch from a worker hold only until the next batch is asked for: their memory is used again.
    """
    for batch in loader:
        if isinstance(batch, LocalError):
            raise LocalError(batch.message, batch.hint)  # not itself: it would hold this frame, and so the workers
        yield batch
