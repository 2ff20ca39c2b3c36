"""Mixup and CutMix: mixes the images of a micro-batch in pairs, and their labels in the same shares.

Pairs, shares and boxes follow from (seed, update, micro-batch index).

Shape suffixes: B images, C channels, H height, W width.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from accel_train.rng import make_key
from accel_train.training.loss import Targets


class Mix(NamedTuple):
    """How a micro-batch is mixed."""

    shift: int
    """Image i is mixed with image i - shift."""
    share: float
    """Of the image itself, 0 to 1; the other has the rest."""
    box: tuple[slice, slice] | None
    """CutMix: the rows and columns that show the other image. None: mixup, whole images are averaged."""

    def images(self, images_BCHW: Tensor) -> Tensor:
        """Return mixed images, channels last."""
        partners_BCHW = _shifted(images_BCHW, self.shift)
        # Of images with one channel torch would choose another layout, in which dropout draws other positions.
        mixed_BCHW = torch.empty_like(images_BCHW, memory_format=torch.channels_last)
        if self.box is None:
            return torch.lerp(images_BCHW, partners_BCHW, 1 - self.share, out=mixed_BCHW)
        mixed_BCHW.copy_(images_BCHW)[:, :, *self.box] = partners_BCHW[:, :, *self.box]
        return mixed_BCHW

    def targets(self, labels_B: Tensor) -> Targets:
        """Return the labels of the mixed images."""
        partners_B = _shifted(labels_B, self.shift)
        if self.share < 1 / 2:
            return Targets(partners_B, labels_B, self.share)
        return Targets(labels_B, partners_B, 1 - self.share)


@dataclass(frozen=True)
class Mixing:
    """The mixing of a run: mixup (Zhang et al. 2018), CutMix (Yun et al. 2019), or for each micro-batch one of them."""

    seed: int = 0
    mixup: float = 0.0
    """Both parameters of the beta distribution of the shares; 0: no mixup."""
    cutmix: float = 0.0
    """Likewise for CutMix."""
    size: int = 0
    """Height and width of an image as the model takes it."""

    def __bool__(self) -> bool:
        return bool(self.mixup or self.cutmix)

    def draw(self, update: int, micro_batch_index: int, images: int) -> Mix:
        """Draw how to mix a micro-batch of at least two images."""
        key = make_key(self.seed, "mixing", update, micro_batch_index)
        random = np.random.RandomState(np.random.Philox(key=key))  # its numbers are the same in every version of numpy
        cuts = self.cutmix and (not self.mixup or random.randint(2))
        shift = 1 + int(random.randint(images - 1))
        alpha = self.cutmix if cuts else self.mixup
        share = float(random.beta(alpha, alpha))
        if not cuts:
            return Mix(shift, share, None)
        row, column = map(int, random.randint(self.size, size=2))
        return by_box(shift, share, row, column, self.size)


def by_box(shift: int, share: float, row: int, column: int, size: int) -> Mix:
    """Return the mix by a box around this row and column, of 1 - share of an image unless it is cut by the edges."""
    half = int(0.5 * (1 - share) ** 0.5 * size)
    rows, columns = (slice(max(0, centre - half), min(size, centre + half)) for centre in (row, column))
    cut = (rows.stop - rows.start) * (columns.stop - columns.start)
    return Mix(shift, 1 - cut / size**2, (rows, columns))


def _shifted(tensor: Tensor, shift: int) -> Tensor:
    """Roll along the first dimension; `torch.roll` would lose channels last."""
    return torch.cat([tensor[-shift:], tensor[:-shift]])
