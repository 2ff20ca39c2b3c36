"""RandAugment and TrivialAugment: operations drawn for each image, with their magnitudes.

The operations and their magnitudes are those of torchvision's RandAugment and TrivialAugmentWide with linear
interpolation.

Shape suffixes: B images, C channels, H height, W width; O operations, M magnitudes, 2 signs, 6 numbers of an operation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from accel_train.data.augmentation.affine import Matrix, affine, rotation, shear_x, shear_y, translation
from accel_train.data.augmentation.color import brightness, contrast, posterize, saturation, sharpness, solarize
from accel_train.data.augmentation.rows import change_rows
from accel_train.rng import integers, make_key

MAGNITUDES = 31
_Change = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Space:
    """The largest magnitude of each kind of operation."""

    shear: float
    translate: Callable[[int], float]
    """Pixels, from the side of an image."""
    rotate: float
    """Degrees."""
    enhance: float
    """Relative change of brightness, colour, contrast and sharpness."""
    posterize: int
    """Bits left out."""


RAND_AUGMENT = Space(shear=0.3, translate=lambda side: 150 / 331 * side, rotate=30, enhance=0.9, posterize=4)
"""Cubuk et al. 2019, as torchvision has it."""
TRIVIAL_AUGMENT_WIDE = Space(shear=0.99, translate=lambda _: 32, rotate=135, enhance=0.99, posterize=6)
"""Müller and Hutter 2021, table 1."""


def _autocontrast(images_BCHW: Tensor, _: Tensor) -> Tensor:
    from torchvision.transforms.v2.functional import autocontrast  # takes a second to import

    changed_BCHW: Tensor = autocontrast(images_BCHW)
    return changed_BCHW


def _equalize(images_BCHW: Tensor, _: Tensor) -> Tensor:
    from torchvision.transforms.v2.functional import equalize

    changed_BCHW: Tensor = equalize(images_BCHW)
    return changed_BCHW


def _by_number(change: _Change) -> _Change:
    """Return a change that takes the first of an operation's six numbers."""
    return lambda images_BCHW, numbers_B6: change(images_BCHW, numbers_B6[:, 0])


_CHANGES: tuple[_Change, ...] = (
    affine,
    *map(_by_number, (brightness, saturation, contrast, sharpness, posterize, solarize)),
    _autocontrast,
    _equalize,
)
"""What operations have in common: one computes all that move pixels."""
_UNCHANGED = len(_CHANGES)
_CHANGE_OF = (_UNCHANGED, 0, 0, 0, 0, 0, *range(1, len(_CHANGES)))
"""By operation, in torchvision's order: identity, two shears, two translations, rotation, brightness, colour, …"""
OPERATIONS = len(_CHANGE_OF)


@lru_cache(maxsize=8)
def numbers_of(space: Space, height: int, width: int) -> Tensor:
    """Return numbers_OM26: a matrix or, as the first number, a factor, by operation, magnitude and sign."""
    shears, degrees, changes = (_to(most) for most in (space.shear, space.rotate, space.enhance))
    right, down = ([float(int(pixels)) for pixels in _to(space.translate(side))] for side in (width, height))
    bits = (8 - torch.arange(MAGNITUDES) / ((MAGNITUDES - 1) / space.posterize)).round().tolist()
    thresholds = [255 * share for share in torch.linspace(1, 0, MAGNITUDES).tolist()]
    none = [0.0] * MAGNITUDES
    rows: list[tuple[Callable[[float, int], Matrix], list[float]]] = [
        (lambda value, sign: _number(value), none),
        (lambda value, sign: shear_x(sign * value, height), shears),
        (lambda value, sign: shear_y(sign * value, width), shears),
        (lambda value, sign: translation(sign * value, 0), right),
        (lambda value, sign: translation(0, sign * value), down),
        (lambda value, sign: rotation(sign * value), degrees),
        *[(lambda value, sign: _number(1 + sign * value), changes)] * 4,
        *[(lambda value, sign: _number(value), values) for values in (bits, thresholds, none, none)],
    ]
    return torch.tensor([[[make(value, sign) for sign in (1, -1)] for value in values] for make, values in rows])


def _to(most: float) -> list[float]:
    magnitudes: list[float] = torch.linspace(0, most, MAGNITUDES).tolist()
    return magnitudes


def _number(value: float) -> Matrix:
    return value, 0.0, 0.0, 0.0, 0.0, 0.0


def operate(images_BCHW: Tensor, operations_B: Tensor, numbers_B6: Tensor) -> Tensor:
    """Return images, each changed by its operation with these numbers."""
    images_BCHW = images_BCHW.clone(memory_format=torch.contiguous_format)
    changes_B = torch.tensor(_CHANGE_OF, device=images_BCHW.device)[operations_B]
    for number, change in enumerate(_CHANGES):
        images_BCHW = change_rows(images_BCHW, changes_B == number, change, numbers_B6)
    return images_BCHW


class RandomOperations:
    """Applies random operations to each image, one after another, of one magnitude or of random ones."""

    def __init__(self, seed: int, space: Space, *, count: int, magnitude: int | None) -> None:
        self._keys = [
            [make_key(seed, name, number) for name in ("operation", "level", "sign")] for number in range(count)
        ]
        self._space = space
        self._magnitude = magnitude

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        height, width = images_BCHW.shape[2:]
        numbers_OM26 = numbers_of(self._space, height, width).to(images_BCHW.device)
        for operation_key, level_key, sign_key in self._keys:
            operations_B = integers(operation_key, sample_indices_B, OPERATIONS)
            levels_B = integers(level_key, sample_indices_B, MAGNITUDES)
            if self._magnitude is not None:
                levels_B.fill_(self._magnitude)
            signs_B = integers(sign_key, sample_indices_B, 2)
            images_BCHW = operate(images_BCHW, operations_B, numbers_OM26[operations_B, levels_B, signs_B])
        return images_BCHW
