"""Decodes a window of a picture file to upright RGB pixels.

Shape suffixes: H height, W width, C channels.
"""

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from accel_train.data.images.crops import Box
from accel_train.data.images.exif import read_orientation

_FRACTIONS = (8, 4, 2)  # 1/8, 1/4 and 1/2: libjpeg-turbo is no faster at fractions between them (7/8, 3/4, …)
_MIRRORED = ((1, 1), (1, -1), (-1, -1), (-1, 1))  # vertical, horizontal stride of EXIF orientations 1–4, and of 5–8
_SIXTEEN_BITS = frozenset({"I;16", "I;16L", "I;16B", "I;16N", "I"})


def decode_window(file: bytes, choose_box: Callable[[int, int], Box], enough: int) -> NDArray[np.uint8]:
    """Return the pixels_HWC of the box that `choose_box` computes from the picture's height and width.

    A JPEG is decoded at 1/2, 1/4 or 1/8 of its size if each side of the box keeps at least `enough` pixels.
    simplejpeg is twice as fast as Pillow and gives the same pixels. It decodes grey and RGB JPEGs for which libjpeg
    reports no warning. Pillow decodes everything else, and distinguishes harmless warnings from damage.

    Raises:
        Exception: the file is damaged or not a picture; Pillow's plugins raise any type, such as struct.error.
    """
    if _is_rgb_jpeg(file):
        with suppress(ValueError):
            return _decode_jpeg(file, choose_box, enough)
    pixels_HWC = _decode_with_pillow(file)
    return _cut(pixels_HWC, choose_box(*pixels_HWC.shape[:2]))


def _is_rgb_jpeg(file: bytes) -> bool:
    try:
        return simplejpeg.decode_jpeg_header(file)[2] in ("YCbCr", "Gray", "RGB")
    except ValueError:
        return False


def _decode_jpeg(file: bytes, choose_box: Callable[[int, int], Box], enough: int) -> NDArray[np.uint8]:
    height, width = map(int, simplejpeg.decode_jpeg_header(file)[:2])
    orientation = read_orientation(file)
    sideways = orientation > 4
    upright = (width, height) if sideways else (height, width)
    box = choose_box(*upright)
    fraction = next((f for f in _FRACTIONS if min(box[2:]) >= f * enough), 1)
    pixels_HWC = simplejpeg.decode_jpeg(file, min_height=-(-height // fraction), min_width=-(-width // fraction))
    if sideways:
        pixels_HWC = pixels_HWC.swapaxes(0, 1)
    down, right = _MIRRORED[(orientation - 1) % 4]
    return _cut(pixels_HWC[::down, ::right], _scaled(box, upright, pixels_HWC.shape[:2]))


def _scaled(box: Box, full: tuple[int, int], decoded: tuple[int, ...]) -> Box:
    """Scale a box from the full size to the decoded size, both (height, width)."""
    top, left, rows, columns = (side * decoded[n % 2] / full[n % 2] for n, side in enumerate(box))
    rows, columns = round(rows), round(columns)
    return min(round(top), decoded[0] - rows), min(round(left), decoded[1] - columns), rows, columns


def _cut(pixels_HWC: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    top, left, rows, columns = box
    return np.ascontiguousarray(pixels_HWC[top : top + rows, left : left + columns])


def _decode_with_pillow(file: bytes) -> NDArray[np.uint8]:
    try:
        with Image.open(io.BytesIO(file)) as picture:
            return np.array(_as_rgb(ImageOps.exif_transpose(picture)))
    except UnidentifiedImageError:  # its message names the buffer
        raise ValueError("not a picture of a known format") from None


def _as_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode in _SIXTEEN_BITS:  # convert() would clip values at 255
        values: NDArray[Any] = np.asarray(picture).astype(np.int64) >> 8
        picture = Image.fromarray(values.clip(0, 255).astype(np.uint8))
    return picture.convert("RGB")
