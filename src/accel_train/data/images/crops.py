"""Crop boxes, computed from a picture's size and a random key."""

import math
from collections.abc import Callable

from accel_train.config.defaults import CENTRE_SHARE, Augmentation
from accel_train.rng import make_key

Box = tuple[int, int, int, int]
"""Top, left, height and width, pixels."""

_CROP_TRIES = 10


def centre_box(height: int, width: int, share: float = CENTRE_SHARE) -> Box:
    """Return the central square, whose side is a share of the picture's shorter side."""
    side = max(1, round(min(height, width) * share))
    return (height - side) // 2, (width - side) // 2, side, side


def random_box(
    height: int,
    width: int,
    key: int,
    scale: tuple[float, ...] = Augmentation.crop_scale,
    ratio: tuple[float, ...] = Augmentation.crop_ratio,
    centre_share: float = CENTRE_SHARE,
) -> Box:
    """Return a box of random area, aspect ratio and position, a function of the key; the central one if none fits."""
    low, high = map(math.log, ratio)
    for attempt in range(_CROP_TRIES):
        area, shape, down, right = (make_key(key, attempt, draw) / 2**64 for draw in range(4))
        area = height * width * (scale[0] + area * (scale[1] - scale[0]))
        shape = math.exp(low + shape * (high - low))
        rows, columns = round(math.sqrt(area / shape)), round(math.sqrt(area * shape))
        if 0 < rows <= height and 0 < columns <= width:
            return int(down * (height - rows + 1)), int(right * (width - columns + 1)), rows, columns
    return centre_box(height, width, centre_share)


def typical_side(images: int, shorter_side: Callable[[int], int]) -> int:
    """Return an image size for pictures of different sizes: 32 to 224 pixels, a multiple of 32.

    It is the median shorter side of up to 64 pictures spread over the data set, rounded down.
    """
    sampled = min(64, images)
    sides = sorted(shorter_side(i * images // sampled) for i in range(sampled))
    return min(224, max(32, sides[len(sides) // 2] // 32 * 32))
