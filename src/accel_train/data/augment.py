"""What happens to a batch of images on the device: augmentation by key, then the model's number format.

Shape suffixes: B images, C channels, H height, W width, P pixels (H × W).
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.defaults import Augmentation
from accel_train.random_keys import integers, make_key


@dataclass(frozen=True)
class ImageTransform:
    """Turns images as read into what the model takes.

    `mean` and `std` are of each channel of the data, as shares of full white. Float images were normalised
    by whoever made them and are only augmented.
    """

    seed: int
    augmentation: Augmentation
    channels: int
    """Of the model; images of one channel are repeated."""
    size: int
    """Height and width of the model's images, pixels."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype
    device: torch.device
    _scale_1C11: Tensor = field(init=False)
    _offset_1C11: Tensor = field(init=False)

    def __post_init__(self) -> None:
        mean, std = (
            torch.tensor(values, dtype=self.dtype, device=self.device).view(1, -1, 1, 1)
            for values in (self.mean, self.std)
        )
        object.__setattr__(self, "_scale_1C11", 1 / (std * 255))
        object.__setattr__(self, "_offset_1C11", -mean / std)

    def __call__(self, images_BCHW: Tensor, tickets_B: Tensor | None = None) -> Tensor:
        """Return images in the model's size, channels and number format, channels last.

        With tickets, the images are augmented, each as its own ticket says.
        """
        if tickets_B is not None and self.augmentation.pad:
            images_BCHW = crop_and_flip(images_BCHW, tickets_B, self.seed, self.augmentation)
        elif tickets_B is not None and self.augmentation.flip:
            images_BCHW = flip(images_BCHW, tickets_B, self.seed)
        normalised = images_BCHW.is_floating_point()
        images_BCHW = images_BCHW.to(self.dtype, memory_format=torch.channels_last)
        if not normalised:
            width = images_BCHW.shape[3]
            offset_1C1W, scale_1C1W = _in_rows(self._offset_1C11, width), _in_rows(self._scale_1C11, width)
            images_BCHW = torch.addcmul(offset_1C1W, images_BCHW, scale_1C1W, out=images_BCHW)
        if images_BCHW.shape[2:] != (self.size, self.size):
            size = (self.size, self.size)
            images_BCHW = functional.interpolate(images_BCHW, size=size, mode="bilinear", antialias=True)
        return images_BCHW.expand(-1, self.channels, -1, -1)


def _in_rows(values_1C11: Tensor, width: int) -> Tensor:
    """Repeat values along a row: channels last, three at a time would leave a CPU's vectors all but empty."""
    return values_1C11.expand(-1, -1, -1, width).contiguous(memory_format=torch.channels_last)


def flip(images_BCHW: Tensor, tickets_B: Tensor, seed: int) -> Tensor:
    """Mirror each image or not, by copies of whole images: of those channels last in a third of a gather's time."""
    images_BHWC = images_BCHW.permute(0, 2, 3, 1)
    both_ways = torch.cat([images_BHWC, images_BHWC.flip(2)])
    chosen_B = torch.arange(len(tickets_B), device=tickets_B.device) + len(tickets_B) * _mirrored(tickets_B, seed)
    return both_ways.index_select(0, chosen_B).permute(0, 3, 1, 2)


def crop_and_flip(images_BCHW: Tensor, tickets_B: Tensor, seed: int, augmentation: Augmentation) -> Tensor:
    """Shift each image within a margin of zeros and mirror it or not: one gather for the whole batch."""
    pad = augmentation.pad
    batch, channels, height, width = images_BCHW.shape
    padded_width = width + 2 * pad
    device = images_BCHW.device
    down_B = integers(make_key(seed, "down"), tickets_B, 2 * pad + 1)
    right_B = integers(make_key(seed, "right"), tickets_B, 2 * pad + 1)
    columns_BW = torch.arange(width, device=device).expand(batch, -1)
    if augmentation.flip:
        mirrored_B1 = _mirrored(tickets_B, seed)[:, None].bool()
        columns_BW = torch.where(mirrored_B1, width - 1 - columns_BW, columns_BW)
    rows_BH = torch.arange(height, device=device) + down_B[:, None]
    pixels_BP = (rows_BH[:, :, None] * padded_width + (columns_BW + right_B[:, None])[:, None]).flatten(1)
    padded_BCP = functional.pad(images_BCHW, (pad,) * 4).flatten(2)
    return padded_BCP.gather(2, pixels_BP[:, None].expand(-1, channels, -1)).view(batch, channels, height, width)


def _mirrored(tickets_B: Tensor, seed: int) -> Tensor:
    return integers(make_key(seed, "flip"), tickets_B, 2)
