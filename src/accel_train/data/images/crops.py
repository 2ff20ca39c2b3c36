"""Pictures in files, decoded straight to the size that the model sees."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from accel_train.data.images.decode import Box, decode_window
from accel_train.data.sources.base import Ids, as_list
from accel_train.errors import LocalError, UserError
from accel_train.rng import make_key

_CROP_AREA = (0.08, 1.0)  # of the picture, and
_CROP_RATIO = (3 / 4, 4 / 3)  # width / height: Szegedy et al. 2015, §6
_CROP_TRIES = 10
_CENTRE_SHARE = 224 / 256  # of the shorter side: the usual evaluation crop


@dataclass(frozen=True)
class FolderSource:
    """Pictures by path; a label is the index of the top folder's name in `classes`."""

    classes: tuple[str, ...]
    root: Path
    paths: tuple[str, ...]
    """Relative to `root`, its first part the class."""
    labels: tuple[int, ...]
    size: int = 224
    random_crop: bool = False

    @property
    def in_memory(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Guess a size from the headers of some pictures."""
        side = typical_side(len(self), self._shorter_side)
        return 3, side, side

    def read(self, ids: Ids, keys: Ids | None) -> tuple[Tensor, Tensor]:
        shape = (len(ids), 3, self.size, self.size)
        images_BCHW = torch.empty(shape, dtype=torch.uint8, memory_format=torch.channels_last)  # as decoders write
        drawn = [None] * len(ids) if keys is None else as_list(keys)
        for position, (image_id, key) in enumerate(zip(as_list(ids), drawn, strict=True)):
            images_BCHW[position] = self._picture(image_id, key)
        return images_BCHW, torch.tensor([self.labels[i] for i in ids])

    def at(self, size: int, random_crop: bool) -> Self:
        return replace(self, size=size, random_crop=random_crop)

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return self

    def _shorter_side(self, image_id: int) -> int:
        path = self._path(image_id)
        try:
            with Image.open(path) as picture:
                return min(picture.size)
        except Exception as error:  # plugins of Pillow raise of any kind
            raise UserError(*_unreadable(path, error)) from None  # every process looks at this picture

    def _path(self, image_id: int) -> str:
        return f"{self.root}/{self.paths[image_id]}"

    def _picture(self, image_id: int, key: int | None) -> Tensor:
        choose_box = centre_box if key is None or not self.random_crop else partial(random_box, key=key)
        window_HWC = torch.from_numpy(read_window(self._path(image_id), choose_box, self.size))
        window_1CHW = window_HWC[None].permute(0, 3, 1, 2)  # with these strides torch keeps it channels last
        size = (self.size, self.size)
        return functional.interpolate(window_1CHW, size=size, mode="bilinear", antialias=True)[0]


def read_window(path: str, choose_box: Callable[[int, int], Box], enough: int) -> NDArray[np.uint8]:
    """Return the pixels_HWC of a box, as :func:`decode_window` does, of a picture in a file.

    Raises:
        LocalError: the picture cannot be read.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123  making a Path takes longer than opening the file
            return decode_window(file.read(), choose_box, enough)
    except Exception as error:  # decoders raise whatever damaged bytes lead them into
        raise LocalError(*_unreadable(path, error)) from None


def typical_side(images: int, shorter_side: Callable[[int], int]) -> int:
    """Guess a size, pixels, for pictures by looking at up to 64: the median shorter side, 32 to 224."""
    looked_at = min(64, images)
    sides = sorted(shorter_side(i * images // looked_at) for i in range(looked_at))
    return min(224, max(32, sides[len(sides) // 2] // 32 * 32))


def centre_box(height: int, width: int) -> Box:
    """Return top, left, height and width of the central square."""
    side = max(1, round(min(height, width) * _CENTRE_SHARE))
    return (height - side) // 2, (width - side) // 2, side, side


def random_box(height: int, width: int, key: int) -> Box:
    """Return top, left, height and width of a random part of a picture, fixed by the key."""
    for attempt in range(_CROP_TRIES):
        area, ratio, down, right = (make_key(key, attempt, draw) / 2**64 for draw in range(4))
        area = height * width * (_CROP_AREA[0] + area * (_CROP_AREA[1] - _CROP_AREA[0]))
        low, high = map(math.log, _CROP_RATIO)
        ratio = math.exp(low + ratio * (high - low))
        rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < rows <= height and 0 < columns <= width:
            return int(down * (height - rows + 1)), int(right * (width - columns + 1)), rows, columns
    return centre_box(height, width)


def _unreadable(path: str, error: Exception) -> tuple[str, str]:
    return f"cannot read the picture {path}: {error}", "repair it or remove it"
