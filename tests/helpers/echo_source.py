"""A source whose batches return the ids and keys that were requested."""

from dataclasses import dataclass

import torch
from torch import Tensor

from accel_train.data.sources.base import Ids, View
from accel_train.errors import LocalError


@dataclass(frozen=True)
class EchoSource:
    """Returns the ids as images and the keys as labels, 0 without keys; image 13 cannot be read in training."""

    images: int
    classes: tuple[str, ...] = ("a", "b")
    shape: tuple[int, int, int] = (1, 1, 1)

    def __len__(self) -> int:
        return self.images

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        if 13 in ids and keys is not None:
            raise LocalError("cannot read the picture a/13.jpg: broken", "repair it or remove it")
        return torch.tensor(ids), torch.tensor(keys if keys is not None else [0] * len(ids))
