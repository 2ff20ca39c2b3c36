"""Labels without images, for a process that computes none of the layers that see images.

Shape suffixes: B images of a batch.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from accel_train.data.packing.source import PackedSource
from accel_train.data.sources.base import Ids, Source, Subset, View
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.picture_files import FolderSource


@dataclass(frozen=True)
class LabelsOnly:
    """A source that reads labels only. A user's source has no such read: its images are read and dropped."""

    source: Source

    @property
    def classes(self) -> tuple[str, ...]:
        return self.source.classes

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.source.shape

    def __len__(self) -> int:
        return len(self.source)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        """Return images without channels, and labels_B."""
        labels_B = _labels(self.source, ids, keys, view)
        return torch.empty(len(labels_B), 0, 0, 0, device=labels_B.device), labels_B


def _labels(source: Source, ids: Ids, keys: Ids | None, view: View) -> Tensor:
    ids_B = np.asarray(ids)
    if isinstance(source, Subset):
        return _labels(source.source, source.ids[ids_B], keys, view)
    if isinstance(source, FolderSource):
        return torch.from_numpy(source.labels[ids_B])
    if isinstance(source, MemorySource | PackedSource):
        return source.labels_N.index_select(0, torch.from_numpy(ids_B).to(source.labels_N.device))
    return source.read(ids, keys, view)[1]
