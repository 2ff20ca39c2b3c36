"""Labels without images: those of a whole source, or of batches for a process that computes no layer that sees images.

Shape suffixes: B images of a batch, N images of a source.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_train.data.packing.source import PackedSource
from accel_train.data.sources.base import LABELS_HINT, Ids, Source, Subset, View, label_problem
from accel_train.data.sources.encoded_images import TableSource
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import UserError, shown


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
    if isinstance(source, FolderSource | TableSource):
        return torch.from_numpy(source.labels[ids_B])
    if isinstance(source, MemorySource | PackedSource):
        return source.labels_N.index_select(0, torch.from_numpy(ids_B).to(source.labels_N.device))
    return source.read(ids, keys, view)[1]


def labels_of(source: Source) -> NDArray[np.int64] | None:
    """Return the labels_N of a source; None if a user's own source does not give them.

    Raises:
        UserError: a user's own source gives labels that cannot be right.
    """
    if isinstance(source, Subset):
        whole = labels_of(source.source)
        return None if whole is None else whole[source.ids]
    if isinstance(source, MemorySource | PackedSource):
        return source.labels_N.cpu().numpy()
    given = getattr(source, "labels", None)
    if given is None:
        return None
    try:
        labels_N = np.asarray(given)
    except ValueError:  # lists of different lengths
        raise UserError(f"the labels are {shown(given)}", LABELS_HINT) from None
    if labels_N.dtype.kind in "iu":
        labels_N = labels_N.astype(np.int64)
        problem = label_problem(torch.from_numpy(labels_N), range(len(source)), len(source.classes))
    else:
        problem = f"the labels are {labels_N.dtype}, not whole numbers"
    if problem:
        raise UserError(problem, LABELS_HINT)
    return labels_N
