"""How a picture of any size becomes a square image."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.config.defaults import CENTRE_SHARE, MOST_PIXELS, Augmentation
from accel_train.config.fields import Fit
from accel_train.data.images.crops import Box, centre_box, random_box
from accel_train.models.base import Interpolation


@dataclass(frozen=True)
class View:
    """How pictures of any size are cropped and resized; sources of images of one size ignore it."""

    size: int
    """Height and width of the images returned, pixels."""
    random_crop: bool
    """Crop each image that has a random key at random; the others are fitted."""
    crop_scale: tuple[float, ...] = Augmentation.crop_scale
    """Range of the random crop's area, as a fraction of the picture's."""
    crop_ratio: tuple[float, ...] = Augmentation.crop_ratio
    """Range of the random crop's width / height."""
    fit: Fit = "crop"
    """crop: the central square; pad: the picture with black margins; squash: the picture, distorted."""
    centre_share: float = CENTRE_SHARE
    """Side of the central square, as a fraction of the picture's shorter side."""
    interpolation: Interpolation = "bilinear"
    """How a box is resized, with antialiasing."""
    most_pixels: int = MOST_PIXELS
    """A picture with more is refused from its header."""

    def box(self, height: int, width: int, key: int | None) -> Box:
        """Return the box of a picture that is read: a random one if there is a key."""
        if key is not None:
            return random_box(height, width, key, self.crop_scale, self.crop_ratio, self.centre_share)
        return centre_box(height, width, self.centre_share) if self.fit == "crop" else (0, 0, height, width)

    def resized(self, window_1CHW: Tensor, key: int | None = None) -> Tensor:
        """Return the pixels of a box as a square image; between margins if `fit` is pad and there is no key."""
        height, width = window_1CHW.shape[2:]
        if self.fit != "pad" or key is not None or height == width:
            return self._scaled(window_1CHW, self.size, self.size)
        longer = max(height, width)
        rows, columns = (max(1, round(side * self.size / longer)) for side in (height, width))
        shape = (1, window_1CHW.shape[1], self.size, self.size)
        image_1CHW = torch.zeros(shape, dtype=window_1CHW.dtype).contiguous(memory_format=torch.channels_last)
        top, left = (self.size - rows) // 2, (self.size - columns) // 2
        image_1CHW[:, :, top : top + rows, left : left + columns] = self._scaled(window_1CHW, rows, columns)
        return image_1CHW

    def _scaled(self, window_1CHW: Tensor, height: int, width: int) -> Tensor:
        return functional.interpolate(window_1CHW, size=(height, width), mode=self.interpolation, antialias=True)
