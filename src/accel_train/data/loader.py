"""DataLoaders that read a whole batch at once."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from accel_train.data.sampler import EvaluationSampler, ImageOrder, UpdateSampler
from accel_train.data.sources.base import LABELS_HINT, Ids, Source, View, label_problem
from accel_train.data.sources.memory import in_memory
from accel_train.data.worker_batches import Batch, SharedMemoryTransfer
from accel_train.errors import LocalError
from accel_train.rng import hash_ids, make_key
from accel_train.system.worker_signals import serve_parent

_MAX_WORKERS = 8
_PREFETCHED = 4
"""Minimum number of batches read ahead of the training loop; at least two per worker."""
_READ_BYTES = 2 << 20
"""Bytes of model input that are read and augmented together if the source is in memory.

Each operation has a fixed cost: eight batches of 64 FashionMNIST images together take a quarter of the time that they
take one by one (see benchmarks/README.md).
"""
_SWITCH_SECONDS = 0.0005
"""Before a worker's main thread yields to the thread that sends a batch; Python's default of 5 ms delays the batch."""


class TrainReader(Dataset[Batch]):
    """Reads the images of sample indices, each with its own random key."""

    def __init__(self, source: Source, view: View, seed: int) -> None:
        self._source = source
        self._view = view
        self._key = make_key(seed, "read")
        self._needs_keys = not in_memory(source)

    def __getitems__(self, sample_indices_B: NDArray[np.int64]) -> Batch | LocalError:
        keys_B = hash_ids(self._key, sample_indices_B) if self._needs_keys else None
        return _read(self._source, sample_indices_B % len(self._source), keys_B, self._view, sample_indices_B)


class EvaluationReader(Dataset[Batch]):
    """Reads the images of ids; PADDING gets the first image, which the caller must not count."""

    def __init__(self, source: Source, view: View) -> None:
        self._source = source
        self._view = view

    def __getitems__(self, ids_B: NDArray[np.int64]) -> Batch | LocalError:
        return _read(self._source, ids_B.clip(min=0), None, self._view, ids_B)


def _read(
    source: Source, ids_B: Ids, keys_B: Ids | None, view: View, sample_indices_B: NDArray[np.int64]
) -> Batch | LocalError:
    """Return errors as values: one raised in a worker process would arrive as a traceback in a string."""
    try:
        images_BCHW, labels_B = source.read(ids_B, keys_B, view)
    except LocalError as error:
        return error
    # Those in memory were checked when they were opened; a check here would wait for the device.
    if not in_memory(source) and (problem := label_problem(labels_B, ids_B, len(source.classes))):
        return LocalError(problem, LABELS_HINT)
    return Batch(images_BCHW, labels_B, torch.from_numpy(sample_indices_B))


@dataclass(frozen=True)
class LoaderSizes:
    """Batch size, and the processes that read."""

    batch_size: int
    """Images per process."""
    replicas: int
    """Replicas of the model."""
    workers: int
    """Loader workers per process."""
    pin_memory: bool
    stages: int = 1
    """Processes per replica, which get the same images."""


def choose_workers(asked: str, source: Source, *, cores: int, on_cpu: bool) -> int:
    """Return the number of loader workers of a process that may use `cores` cores.

    auto means none for an in-memory source. For files it means all cores but one if the model is on a GPU, and a
    quarter of the cores if the model computes on the CPU.
    """
    if asked != "auto":
        return int(asked)
    if in_memory(source):
        return 0
    return max(1, min(_MAX_WORKERS, cores // 4 if on_cpu else cores - 1))


def micro_batches_per_read(source: Source, batch_bytes: int) -> int:
    """Return how many micro-batches, of `batch_bytes` of model input each, to read at once."""
    return max(1, _READ_BYTES // batch_bytes) if in_memory(source) else 1


def train_loader(
    source: Source,
    view: View,
    sizes: LoaderSizes,
    order: ImageOrder,
    *,
    blocks: Sequence[range],
    epochs: int,
    per_read: int = 1,
) -> tuple[DataLoader[Batch], UpdateSampler]:
    """Return a loader of the micro-batches of all processes and epochs, for Accelerate to split, and its sampler.

    `blocks` are the indices of each replica's micro-batches in an update. Each item holds `per_read` micro-batches of
    every process.
    """
    sampler = UpdateSampler(
        order,
        batch_size=sizes.batch_size,
        blocks=blocks,
        stages=sizes.stages,
        epochs=epochs,
        per_read=per_read,
    )
    return _loader(TrainReader(source, view, order.seed), sampler, sizes), sampler


def evaluation_loader(source: Source, view: View, sizes: LoaderSizes) -> DataLoader[Batch]:
    """Return a loader of the evaluation batches of all processes, for Accelerate to split."""
    sampler = EvaluationSampler(len(source), batch_size=sizes.batch_size, replicas=sizes.replicas, stages=sizes.stages)
    return _loader(EvaluationReader(source, view), sampler, sizes)


def _loader(
    reader: TrainReader | EvaluationReader, sampler: UpdateSampler | EvaluationSampler, sizes: LoaderSizes
) -> DataLoader[Batch]:
    prefetched = max(2, _PREFETCHED // max(1, sizes.workers))
    return DataLoader(
        reader,
        batch_sampler=sampler,  # type: ignore[arg-type]  # of arrays, which torch and Accelerate accept like lists
        collate_fn=SharedMemoryTransfer(prefetched),
        num_workers=sizes.workers,
        persistent_workers=sizes.workers > 0,
        prefetch_factor=prefetched if sizes.workers else None,
        worker_init_fn=_init_worker,
        pin_memory=sizes.pin_memory,
    )


def _init_worker(worker_id: int) -> None:
    serve_parent(worker_id)
    sys.setswitchinterval(_SWITCH_SECONDS)


def batches(loader: Iterable[Batch | LocalError]) -> Iterator[Batch]:
    """Iterate over a loader and raise the errors that it yields.

    A batch from a worker is valid until the next batch is requested: its memory is then used again.
    """
    for batch in loader:
        if isinstance(batch, LocalError):
            raise LocalError(batch.message, batch.hint)  # a copy: the original would hold this frame and so the workers
        yield batch
