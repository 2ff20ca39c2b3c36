"""In-memory sources: images of one size, held as one tensor.

Shape suffixes: N images of a source, B images of a batch, C channels, H height, W width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from accel_train.data.sources.base import DataSet, Ids, Source, Subset, View, pixel_statistics


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

    def __len__(self) -> int:
        return len(self.labels_N)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        ids_B = torch.from_numpy(np.asarray(ids)).to(self.labels_N.device, non_blocking=True)
        return self.images_NCHW.index_select(0, ids_B), self.labels_N.index_select(0, ids_B)


def in_memory(source: Source) -> bool:
    """Return whether a source, or the source of a subset, is a MemorySource."""
    return in_memory(source.source) if isinstance(source, Subset) else isinstance(source, MemorySource)


def move(source: Source, function: Callable[[Tensor], Tensor]) -> Source:
    """Apply a function to each tensor of an in-memory source, such as a copy to the device."""
    if isinstance(source, Subset):
        return replace(source, source=move(source.source, function))
    assert isinstance(source, MemorySource)
    return replace(source, images_NCHW=function(source.images_NCHW), labels_N=function(source.labels_N))


def memory_data(kind: str, origin: str, train: MemorySource, val: MemorySource) -> DataSet:
    """Return the data set of two in-memory sources, normalised by the training images."""
    return DataSet(kind, origin, train, val, *pixel_statistics(train))
