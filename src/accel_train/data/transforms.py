"""Transforms a batch on the device: augmentation from random keys, then the model's size and number format.

Shape suffixes: B images, N images and their mirror images, C channels, H height, W width; 3 for down, right, mirrored.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.config.defaults import Augmentation
from accel_train.rng import integers, make_key, signed


class CropAndFlip:
    """Shifts each image within a margin of zeros and mirrors some, as functions of the sample index."""

    def __init__(self, seed: int, augmentation: Augmentation, device: torch.device) -> None:
        self._pad = augmentation.pad
        keys = [[signed(make_key(seed, name))] for name in ("down", "right", "flip")]
        shifts = 2 * augmentation.pad + 1
        self._keys_31 = torch.tensor(keys, device=device)
        self._limits_31 = torch.tensor([[shifts], [shifts], [1 + augmentation.flip]], device=device)

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        down_B, right_B, mirrored_B = integers(self._keys_31, sample_indices_B, self._limits_31)
        both_ways = torch.cat([images_BCHW, images_BCHW.flip(3)])
        images = len(images_BCHW)
        chosen_B = torch.arange(images, device=images_BCHW.device) + images * mirrored_B
        if not self._pad:  # whole images: takes a third of the time in channels last
            return both_ways.permute(0, 2, 3, 1).index_select(0, chosen_B).permute(0, 3, 1, 2)
        right_B = torch.where(mirrored_B == 1, 2 * self._pad - right_B, right_B)
        return self._windows(both_ways, chosen_B, down_B, right_B)

    def _windows(self, images_NCHW: Tensor, chosen_B: Tensor, down_B: Tensor, right_B: Tensor) -> Tensor:
        """Copy from each chosen image, padded, the window of the original size at its offset down and right."""
        channels, height, width = images_NCHW.shape[1:]
        padded = functional.pad(images_NCHW.contiguous(), (self._pad,) * 4)
        per_image, per_channel, per_row, _ = padded.stride()
        last = per_channel * (channels - 1) + per_row * (height - 1) + width - 1  # offset of a window's last pixel
        windows = padded.as_strided((padded.numel() - last, channels, height, width), (1, per_channel, per_row, 1))
        return windows.index_select(0, per_image * chosen_B + per_row * down_B + right_B)


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
    _rows: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False)

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor | None = None) -> Tensor:
        """Return images in the model's size, channels and number format, channels last.

        Images are augmented if sample indices are given.
        """
        if sample_indices_B is not None and (self.augmentation.pad or self.augmentation.flip):
            images_BCHW = self._crop_and_flip(images_BCHW, sample_indices_B)
        normalised = images_BCHW.is_floating_point()
        images_BCHW = images_BCHW.to(self.dtype, memory_format=torch.channels_last)
        if not normalised:
            offset_1C1W, scale_1C1W = self._row(images_BCHW.shape[3])
            images_BCHW = torch.addcmul(offset_1C1W, images_BCHW, scale_1C1W, out=images_BCHW)
        if images_BCHW.shape[2:] != (self.size, self.size):
            size = (self.size, self.size)
            images_BCHW = functional.interpolate(images_BCHW, size=size, mode="bilinear", antialias=True)
        return images_BCHW.expand(-1, self.channels, -1, -1)

    @cached_property
    def _crop_and_flip(self) -> CropAndFlip:
        return CropAndFlip(self.seed, self.augmentation, self.device)

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
