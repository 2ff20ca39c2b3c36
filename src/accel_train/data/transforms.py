"""Transforms a batch on the device: augmentation from random keys, then the model's size and number format.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.config.defaults import Augmentation
from accel_train.data.augmentation.rows import Step
from accel_train.data.augmentation.steps import steps
from accel_train.models.base import Interpolation


@dataclass(frozen=True)
class ImageTransform:
    """Turns images as read into the model's input.

    `mean` and `std` are by channel of the data, as fractions of full white. Float images are taken as normalised and
    are only augmented.
    """

    seed: int
    augmentation: Augmentation
    channels: int
    """The model's; grey images are repeated."""
    size: int
    """Height and width of the model's input, pixels."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype
    device: torch.device
    interpolation: Interpolation = "bilinear"
    """How images are resized, with antialiasing."""
    _rows: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False)

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor | None = None) -> Tensor:
        """Return images in the model's size, channels and number format, channels last.

        Images are augmented if sample indices are given.
        """
        normalised = images_BCHW.is_floating_point()
        if not normalised:  # weights may have a mean of each channel for grey images, too
            images_BCHW = images_BCHW.expand(-1, max(images_BCHW.shape[1], len(self.mean)), -1, -1)
        if sample_indices_B is not None:
            for step in self._steps:
                images_BCHW = step(images_BCHW, sample_indices_B)
        images_BCHW = images_BCHW.to(self.dtype, memory_format=torch.channels_last)
        if not normalised:
            offset_1C1W, scale_1C1W = self._row(images_BCHW.shape[3])
            images_BCHW = torch.addcmul(offset_1C1W, images_BCHW, scale_1C1W, out=images_BCHW)
        if images_BCHW.shape[2:] != (self.size, self.size):
            size = (self.size, self.size)
            images_BCHW = functional.interpolate(images_BCHW, size=size, mode=self.interpolation, antialias=True)
        return images_BCHW.expand(-1, self.channels, -1, -1)

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(steps(self.seed, self.augmentation, self.mean, self.device))

    def _row(self, width: int) -> tuple[Tensor, Tensor]:
        """Return the offset and scale that normalise an image, repeated for each pixel of a row.

        Channels last, three values at a time would leave most of a CPU's vector unit unused; a whole row fills it.
        """
        if width not in self._rows:
            mean, std = (
                torch.tensor(values, dtype=self.dtype, device=self.device).view(1, -1, 1, 1).expand(-1, -1, -1, width)
                for values in (self.mean, self.std)
            )
            offset, scale = (
                row.contiguous(memory_format=torch.channels_last) for row in (-mean / std, 1 / (std * 255))
            )
            self._rows[width] = offset, scale
        return self._rows[width]


Transform = Callable[..., Tensor]
"""Called with images as read, and in training with their sample indices."""


def no_images(images_BCHW: Tensor, sample_indices_B: Tensor | None = None) -> Tensor:
    """Return what was read instead of images (see sources/labels.py)."""
    return images_BCHW
