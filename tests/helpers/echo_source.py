"""A source whose images are the ids and keys that were requested."""

from dataclasses import dataclass

import torch
from torch import Tensor

from accel_train.data.sources.base import Ids, View
from accel_train.errors import LocalError


@dataclass(frozen=True)
class EchoSource:
    """Returns images of an id and its key, 0 without keys, with label 0; image 13 cannot be read in training."""

    images: int
    classes: tuple[str, ...] = ("a", "b")
    shape: tuple[int, int, int] = (1, 1, 1)

    def __len__(self) -> int:
        return self.images

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        if 13 in ids and keys is not None:
            raise LocalError("cannot read the picture a/13.jpg: broken", "repair it or remove it")
        given = torch.tensor(keys if keys is not None else [0] * len(ids))
        return torch.stack([torch.tensor(ids), given], dim=1), torch.zeros(len(ids), dtype=torch.int64)
