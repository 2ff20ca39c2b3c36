"""Checks what a user's data set gives: its classes, and the shape and number format of its images."""

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Set, Sized
from typing import Any

import torch
from torch import Tensor

from accel_train.errors import UserError, shown

_MOST_NAMED = 8
_RGB = (3, 4)
"""Channels of pictures that other libraries store last."""


def class_names(classes: Any, name: str) -> tuple[str, ...]:
    """Return the names of the classes of a data set.

    Raises:
        UserError: there are no two, two are the same, or their order is not fixed.
    """
    if isinstance(classes, str | Set) or not isinstance(classes, Iterable) or not isinstance(classes, Sized):
        order = ": a set has another order in each process" if isinstance(classes, Set) else ""
        found = f"a {type(classes).__name__}" if isinstance(classes, Iterator) else shown(classes)
        raise UserError(f"{name} has the classes {found}{order}", "make `classes` a list of names")
    names = tuple(map(str, classes))
    repeated = [each for each, count in Counter(names).items() if count > 1]
    if len(names) < 2 or repeated or "" in names:
        reason = f": {shown(repeated[0])} is named twice" if repeated else ""
        raise UserError(f"{name} has the classes {_some(names)}{reason}", "name two or more, each once, none empty")
    return names


def other_classes(train: tuple[str, ...], other: tuple[str, ...]) -> str:
    """Return how the classes of another split differ from those of the training data."""
    if len(train) != len(other):
        return f"{len(train):,} and {len(other):,}"
    index = next(index for index, names in enumerate(zip(train, other, strict=True)) if len(set(names)) > 1)
    return f"class {index} is {shown(train[index])} and {shown(other[index])}"


def check_shape(shape: Any, name: str) -> None:
    """Check the `shape` of a user's source.

    Raises:
        UserError: it is not channels, height and width.
    """
    try:
        sizes = [operator.index(size) for size in shape]
    except TypeError:
        sizes = []
    if len(sizes) != 3 or min(sizes) < 1:
        raise UserError(f"{name} has the shape {shown(shape)}", "make `shape` (channels, height, width)")


def check_length(data: Any, name: str) -> None:
    """Check that a data set has a length that is possible.

    Raises:
        UserError: it has none, or has no images.
    """
    try:
        count = len(data)
    except (TypeError, ValueError, OverflowError) as error:
        kind = f"the class {data.__name__}, not an object of it" if isinstance(data, type) else f"{error}"
        raise UserError(f"{name} has no length: {kind}", "let `__len__` return the number of images") from None
    if count == 0:
        raise UserError(f"{name} has no images", "return at least one")


def wrong_images(images: Any, axes: str) -> tuple[str, str] | None:
    """Return what is wrong with the shape or the number format of an image (C × H × W) or several, and a hint."""
    if not isinstance(images, Tensor):
        return f"a {type(images).__name__}", f"return a tensor of {axes}"
    if images.ndim != len(axes.split(" × ")):
        return f"a tensor of {tuple(images.shape)}", f"return a tensor of {axes}"
    kind = f"{images.dtype} of {' × '.join(map(str, images.shape))}"
    hints = {
        "give uint8 from 0 to 255, or floats that are normalised": (
            images.dtype != torch.uint8 and not images.is_floating_point()
        ),
        f"give a dense tensor with data, not {images.layout} on {images.device}": images.layout is not torch.strided
        or images.is_meta,
        "give images that have pixels": 0 in images.shape,
        f"give {axes}, such as image.permute(2, 0, 1): the channels are last": _is_channels_last(*images.shape[-3:]),
    }
    return next(((kind, hint) for hint, applies in hints.items() if applies), None)


def _is_channels_last(first: int, second: int, last: int) -> bool:
    """Return whether an image can only be H × W × C; C × L × 1 may be a signal."""
    return min(first, second) > max(_RGB) and (last in _RGB or (last == 1 and first == second))


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" * (len(names) > _MOST_NAMED)
    return f"{', '.join(names[:_MOST_NAMED])}{more}" or "()"
