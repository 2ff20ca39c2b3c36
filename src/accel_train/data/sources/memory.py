"""In-memory sources: images of one size, held as one tensor.

Shape suffixes: N images of a source, B images of a batch, C channels, H height, W width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from accel_train.data.sources.base import (
    LABELS_HINT,
    DataSet,
    Ids,
    Source,
    Subset,
    View,
    label_problem,
    pixel_statistics,
)
from accel_train.data.sources.checks import wrong_images
from accel_train.distributed.replica_check import fingerprint
from accel_train.errors import UserError
from accel_train.loggers.text import quantity


@dataclass(frozen=True)
class MemorySource:
    """Images held as one tensor; reading a batch is an index_select."""

    classes: tuple[str, ...]
    images_NCHW: Tensor
    labels_N: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.images_NCHW.shape[1:]
        return channels, height, width

    @property
    def counts(self) -> tuple[int, ...]:
        """Images of each class."""
        return tuple(self.labels_N.bincount(minlength=len(self.classes)).tolist())

    @property
    def fingerprint(self) -> str:
        """A hash of all pixels and labels; takes 10 ms for FashionMNIST (one thread of a 2.8 GHz Xeon, 2026-11-29)."""
        words = [*_words(self.images_NCHW), *_words(self.labels_N)]
        return f"{fingerprint(words, *self.images_NCHW.shape):016x}"

    def __len__(self) -> int:
        return len(self.labels_N)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        ids_B = torch.from_numpy(np.asarray(ids)).to(self.labels_N.device, non_blocking=True)
        return self.images_NCHW.index_select(0, ids_B), self.labels_N.index_select(0, ids_B)


def _words(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the bytes of a tensor as words of 32 bits, which are hashed faster, and the rest."""
    flat = torch.from_numpy(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())  # starts at offset 0
    whole = flat.numel() // 4 * 4
    yield flat[:whole].view(torch.int32)
    yield flat[whole:]


def in_memory(source: Source) -> bool:
    """Return whether a source, or the source of a subset, is a MemorySource."""
    return in_memory(source.source) if isinstance(source, Subset) else isinstance(source, MemorySource)


def move(source: Source, function: Callable[[Tensor], Tensor]) -> Source:
    """Apply a function to each tensor of an in-memory source, such as a copy to the device."""
    if isinstance(source, Subset):
        return replace(source, source=move(source.source, function))
    assert isinstance(source, MemorySource)
    return replace(source, images_NCHW=function(source.images_NCHW), labels_N=function(source.labels_N))


def check_memory(source: MemorySource, split: str) -> None:
    """Check that each image has a label.

    Raises:
        UserError: it has none, or that of no class.
    """
    if not isinstance(source.labels_N, Tensor):
        raise UserError(f"{split} has labels that are a {type(source.labels_N).__name__}", "give a tensor of int64")
    wrong = wrong_images(source.images_NCHW, "N × C × H × W")
    if wrong and not (isinstance(source.images_NCHW, Tensor) and source.images_NCHW.ndim != 4):
        raise UserError(f"{split} has images that are {wrong[0]}", wrong[1])
    if wrong or len(source.images_NCHW) != len(source.labels_N):
        shape = " × ".join(map(str, source.images_NCHW.shape))
        raise UserError(
            f"{split} has images of shape {shape} and {quantity(len(source.labels_N), 'label')}",
            "give N × C × H × W and N labels",
        )
    if problem := label_problem(source.labels_N, range(len(source)), len(source.classes)):
        raise UserError(f"{split}: {problem}", LABELS_HINT)


def memory_data(kind: str, origin: str, train: MemorySource, val: MemorySource) -> DataSet:
    """Return the data set of two in-memory sources, normalised by the training images."""
    return DataSet(kind, origin, train, val, *pixel_statistics(train))
