"""Pictures in files, decoded straight to the size that the model sees."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from accel_train.errors import LocalError, UserError
from accel_train.random_keys import make_key

_SIXTEEN_BITS = frozenset({"I;16", "I;16L", "I;16B", "I;16N", "I"})
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
        """Guess a size from the headers of up to 64 pictures: the median shorter side, 32 to 224 pixels."""
        looked_at = min(64, len(self))
        sides = sorted(self._shorter_side(i * len(self) // looked_at) for i in range(looked_at))
        side = min(224, max(32, sides[len(sides) // 2] // 32 * 32))
        return 3, side, side

    def read(self, ids: Sequence[int], keys: Sequence[int] | None) -> tuple[Tensor, Tensor]:
        images = [self._picture(i, keys[n] if keys else None) for n, i in enumerate(ids)]
        return torch.stack(images), torch.tensor([self.labels[i] for i in ids])

    def at(self, size: int, random_crop: bool) -> Self:
        return replace(self, size=size, random_crop=random_crop)

    def to(self, device: torch.device) -> Self:
        return self

    def _shorter_side(self, image_id: int) -> int:
        try:
            with self._open(image_id) as picture:
                return min(picture.size)
        except LocalError as error:  # every process looks at this picture
            raise UserError(error.message, error.hint) from None

    def _open(self, image_id: int) -> Image.Image:
        path = self.root / self.paths[image_id]
        try:
            return Image.open(path)
        except Exception as error:  # as below
            raise _unreadable(path, error) from None

    def _picture(self, image_id: int, key: int | None) -> Tensor:
        drawn = key if self.random_crop else None
        with self._open(image_id) as picture:
            try:
                if drawn is None:  # decode a large JPEG at a fraction of its size, if that is still enough
                    enough = math.ceil(self.size / _CENTRE_SHARE)
                    picture.draft("RGB", (enough, enough))
                pixels_HWC = np.array(_as_rgb(ImageOps.exif_transpose(picture)))
            except Exception as error:  # decoders raise whatever damaged bytes lead them into, such as struct.error
                raise _unreadable(self.root / self.paths[image_id], error) from None
        height, width = pixels_HWC.shape[:2]
        box = centre_box(height, width) if drawn is None else random_box(height, width, drawn)
        top, left, rows, columns = box
        window_CHW = torch.from_numpy(pixels_HWC[top : top + rows, left : left + columns]).permute(2, 0, 1)
        return torch.nn.functional.interpolate(
            window_CHW[None], size=(self.size, self.size), mode="bilinear", antialias=True
        )[0]


def centre_box(height: int, width: int) -> tuple[int, int, int, int]:
    """Return top, left, height and width of the central square."""
    side = max(1, round(min(height, width) * _CENTRE_SHARE))
    return (height - side) // 2, (width - side) // 2, side, side


def random_box(height: int, width: int, key: int) -> tuple[int, int, int, int]:
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


def _as_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode in _SIXTEEN_BITS:  # convert() would cut values at 255
        picture = Image.fromarray((np.asarray(picture).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    return picture.convert("RGB")


def _unreadable(path: Path, error: Exception) -> LocalError:
    return LocalError(f"cannot read the picture {path}: {error}", "repair it or remove it")
