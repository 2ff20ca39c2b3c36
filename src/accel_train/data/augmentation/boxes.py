"""Random boxes: an image's crop, and the rectangle that is erased.

Shape suffixes: B images, T tries, C channels, H height, W width.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.data.augmentation.rows import change_rows
from accel_train.rng import fractions, make_key, signed

_TRIES = 10
_ERASED_AREA = (0.02, 0.33)  # fraction of the image's area; torchvision's default, as the next
_ERASED_RATIO = (1 / 3.3, 1 / 0.3)  # width / height


class Boxes(NamedTuple):
    """A box of each image, pixels."""

    top_B: Tensor
    left_B: Tensor
    rows_B: Tensor
    columns_B: Tensor
    found_B: Tensor
    """Whether a try gave a box that fits into the image; the others hold the whole image."""


def random_boxes(
    key: int,
    sample_indices_B: Tensor,
    size: tuple[int, int],
    *,
    area: tuple[float, ...],
    ratio: tuple[float, ...],
    smaller: bool = False,
) -> Boxes:
    """Draw a box for each image: the first of ten that fits into the image's height and width, or is `smaller`.

    `area` is a range of fractions of the image's, `ratio` one of width / height, which is drawn uniformly in its
    logarithm.
    """
    height, width = size
    keys_T1 = [
        torch.tensor(
            [[signed(make_key(key, attempt, draw))] for attempt in range(_TRIES)], device=sample_indices_B.device
        )
        for draw in range(4)
    ]
    area_TB, ratio_TB, down_TB, right_TB = (fractions(key_T1, sample_indices_B) for key_T1 in keys_T1)
    low, high = map(math.log, ratio)
    area_TB = height * width * (area[0] + area_TB * (area[1] - area[0]))
    ratio_TB = torch.exp(low + ratio_TB * (high - low))
    rows_TB, columns_TB = (area_TB / ratio_TB).sqrt().round(), (area_TB * ratio_TB).sqrt().round()
    fits_TB = (rows_TB > 0) & (rows_TB <= height - smaller) & (columns_TB > 0) & (columns_TB <= width - smaller)
    first_1B = fits_TB.to(torch.uint8).argmax(dim=0, keepdim=True)
    found_B, rows_B, columns_B, down_B, right_B = (
        each.gather(0, first_1B)[0] for each in (fits_TB, rows_TB, columns_TB, down_TB, right_TB)
    )
    rows_B = torch.where(found_B, rows_B, height)
    columns_B = torch.where(found_B, columns_B, width)
    top_B, left_B = (down_B * (height - rows_B + 1)).floor(), (right_B * (width - columns_B + 1)).floor()
    return Boxes(top_B.clamp(max=height - rows_B), left_B.clamp(max=width - columns_B), rows_B, columns_B, found_B)


def resized_crops(images_BCHW: Tensor, boxes: Boxes) -> Tensor:
    """Return each image's box, enlarged to the size of the image and interpolated linearly."""
    height, width = images_BCHW.shape[2:]
    y_BH = _from_box(boxes.top_B, boxes.rows_B, height)
    x_BW = _from_box(boxes.left_B, boxes.columns_B, width)
    shape = (len(images_BCHW), height, width)
    grid_BHW2 = torch.stack([x_BW[:, None, :].expand(shape), y_BH[:, :, None].expand(shape)], dim=3)
    crops_BCHW = functional.grid_sample(images_BCHW.to(torch.float32), grid_BHW2, "bilinear", "border", False)
    return crops_BCHW if images_BCHW.is_floating_point() else crops_BCHW.round_().to(images_BCHW.dtype)


def _from_box(first_B: Tensor, count_B: Tensor, side: int) -> Tensor:
    """Return for each pixel of a side where in the box it is taken from, on the scale of `grid_sample`."""
    pixels = torch.arange(side, device=first_B.device) + 0.5
    within_BS = (pixels * (count_B[:, None] / side) - 0.5).clamp(min=0).minimum(count_B[:, None] - 1)
    return (2 * (first_B[:, None] + within_BS) + 1) / side - 1


class ResizedCrop:
    """Enlarges a random part of each image: the random resized crop of sources whose images have one size."""

    def __init__(self, seed: int, scale: tuple[float, ...], ratio: tuple[float, ...]) -> None:
        self._key = make_key(seed, "crop")
        self._scale = scale
        self._ratio = ratio

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        height, width = images_BCHW.shape[2:]
        boxes = random_boxes(self._key, sample_indices_B, (height, width), area=self._scale, ratio=self._ratio)
        return resized_crops(images_BCHW, boxes)


class RandomErasing:
    """Fills a random rectangle of some images with one colour."""

    def __init__(self, seed: int, probability: float, fill: tuple[int, ...]) -> None:
        """`fill` is a value for each channel of uint8 images; floats, which are normalised, are filled with 0."""
        self._keys = make_key(seed, "erase?"), make_key(seed, "erase")
        self._probability = probability
        self._fill = fill

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        height, width = images_BCHW.shape[2:]
        boxes = random_boxes(
            self._keys[1], sample_indices_B, (height, width), area=_ERASED_AREA, ratio=_ERASED_RATIO, smaller=True
        )
        chosen_B = boxes.found_B & (fractions(self._keys[0], sample_indices_B) < self._probability)
        values = (0,) * images_BCHW.shape[1] if images_BCHW.is_floating_point() else self._fill
        fill_C11 = torch.tensor(values, dtype=images_BCHW.dtype, device=images_BCHW.device).view(-1, 1, 1)

        def erased(images_BCHW: Tensor, *box: Tensor) -> Tensor:
            return torch.where(_inside(box, height, width)[:, None], fill_C11, images_BCHW)

        return change_rows(images_BCHW.clone(), chosen_B, erased, *boxes[:4])


def _inside(box: tuple[Tensor, ...], height: int, width: int) -> Tensor:
    """Return for each pixel_BHW whether the image's box contains it."""
    top_B, left_B, rows_B, columns_B = box
    y_H, x_W = torch.arange(height, device=top_B.device), torch.arange(width, device=top_B.device)
    down_BH = (y_H >= top_B[:, None]) & (y_H < (top_B + rows_B)[:, None])
    right_BW = (x_W >= left_B[:, None]) & (x_W < (left_B + columns_B)[:, None])
    return down_BH[:, :, None] & right_BW[:, None, :]
