"""Data sets with classes of different sizes, named as users name theirs."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from accel_train.data.open import open_data
from accel_train.data.sources.base import Source
from accel_train.data.sources.memory import MemorySource


def digits() -> tuple[Source, Source]:
    """Return the digits; each class has fewer training images than the class before it."""
    data = open_data("digits", directory=None, val_fraction=None, seed=0, limit=None)
    train = data.train
    assert isinstance(train, MemorySource)
    labels = train.labels_N.numpy()
    kept = np.sort(np.concatenate([np.flatnonzero(labels == digit)[: 100 // (1 + digit)] for digit in range(10)]))
    return MemorySource(train.classes, train.images_NCHW[kept], train.labels_N[kept]), data.val


class Unlabelled:
    """Pairs of images and labels that do not tell the labels in advance."""

    classes = ("a", "b")

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((1, 8, 8), index, dtype=torch.uint8), index % 2


def unlabelled() -> tuple[Any, Any]:
    return Unlabelled(), Unlabelled()
