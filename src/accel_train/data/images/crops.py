"""Crop boxes, computed from a picture's size and a random key."""

import math
from collections.abc import Callable

from accel_train.rng import make_key

Box = tuple[int, int, int, int]
"""Top, left, height and width, pixels."""

_CROP_AREA = (0.08, 1.0)  # fraction of the picture's area (Szegedy et al. 2015, §6)
_CROP_RATIO = (3 / 4, 4 / 3)  # width / height (same section)
_CROP_TRIES = 10
_CENTRE_SHARE = 224 / 256  # of the shorter side: the usual evaluation crop


def crop_box(height: int, width: int, key: int | None) -> Box:
    """Return the random box of a key, or the central one without a key."""
    return centre_box(height, width) if key is None else random_box(height, width, key)


def centre_box(height: int, width: int) -> Box:
    """Return the central square."""
    side = max(1, round(min(height, width) * _CENTRE_SHARE))
    return (height - side) // 2, (width - side) // 2, side, side


def random_box(height: int, width: int, key: int) -> Box:
    """Return a box of random area, aspect ratio and position, a function of the key."""
    for attempt in range(_CROP_TRIES):
        area, ratio, down, right = (make_key(key, attempt, draw) / 2**64 for draw in range(4))
        area = height * width * (_CROP_AREA[0] + area * (_CROP_AREA[1] - _CROP_AREA[0]))
        low, high = map(math.log, _CROP_RATIO)
        ratio = math.exp(low + ratio * (high - low))
        rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < rows <= height and 0 < columns <= width:
            return int(down * (height - rows + 1)), int(right * (width - columns + 1)), rows, columns
    return centre_box(height, width)


def typical_side(images: int, shorter_side: Callable[[int], int]) -> int:
    """Return an image size for pictures of different sizes: 32 to 224 pixels, a multiple of 32.

    It is the median shorter side of up to 64 pictures spread over the data set, rounded down.
    """
    sampled = min(64, images)
    sides = sorted(shorter_side(i * images // sampled) for i in range(sampled))
    return min(224, max(32, sides[len(sides) // 2] // 32 * 32))
