"""Decodes a window of a picture file to upright RGB pixels; a damaged file is an error.

Shape suffixes: H height, W width, C channels.
"""

from collections.abc import Callable

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.images.crops import Box
from accel_train.data.images.exif import read_orientation
from accel_train.data.images.jpeg import without_harmless_faults
from accel_train.data.images.pillow import check_size, decode_with_pillow
from accel_train.data.images.png import SIGNATURE as PNG
from accel_train.data.images.png import checked_png

Pixels = NDArray[np.uint8]

_JPEG = b"\xff\xd8"
_FRACTIONS = (8, 4, 2)  # 1/8, 1/4 and 1/2: libjpeg-turbo is no faster at fractions between them (7/8, 3/4, …)
_MIRRORED = ((1, 1), (1, -1), (-1, -1), (-1, 1))  # vertical, horizontal stride of EXIF orientations 1–4, and of 5–8
_COLOURS = {"YCbCr": "RGB", "Gray": "RGB", "RGB": "RGB", "CMYK": "CMYK", "YCCK": "CMYK"}
"""What simplejpeg decodes each of its colour spaces to."""
_UNSUPPORTED = "Could not determine"
"""In the message of simplejpeg for a JPEG with sampling factors or a colour space that it does not know."""


def decode_window(
    file: bytes, choose_box: Callable[[int, int], Box], enough: int | None, most_pixels: int = MOST_PIXELS
) -> Pixels:
    """Return the pixels_HWC of the box that `choose_box` computes from the picture's height and width.

    A JPEG, unless it is CMYK, is decoded at 1/2, 1/4 or 1/8 of its size if each side of the box keeps `enough` pixels;
    at full size if that is None.
    simplejpeg is twice as fast as Pillow, gives the same pixels, and stops at what libjpeg only warns of: a damaged
    JPEG would be grey in parts. Pillow decodes all other pictures, and JPEGs that simplejpeg does not know.

    Raises:
        Exception: the file is damaged, not a picture, or has more than `most_pixels`; Pillow's plugins raise any type,
            such as struct.error.
    """
    if not file:
        raise ValueError("the file is empty")
    if file.startswith(_JPEG):
        try:
            return _decode_jpeg(file, choose_box, enough, most_pixels)
        except _UnsupportedJpegError:
            pass
    elif file.startswith(PNG):
        file = checked_png(file, most_pixels)
    pixels_HWC, orientation = decode_with_pillow(file, most_pixels)
    pixels_HWC = upright(pixels_HWC, orientation)
    window_HWC = _cut(pixels_HWC, choose_box(*pixels_HWC.shape[:2]))
    return window_HWC if window_HWC.flags.writeable else window_HWC.copy()


class _UnsupportedJpegError(ValueError):
    """simplejpeg cannot decode the JPEG, which may be valid."""


def _decode_jpeg(file: bytes, choose_box: Callable[[int, int], Box], enough: int | None, most_pixels: int) -> Pixels:
    try:
        return _decode_strictly(file, choose_box, enough, most_pixels)
    except ValueError as error:
        if _UNSUPPORTED in str(error):
            raise _UnsupportedJpegError from None
        mended = without_harmless_faults(file)
        if mended == file:
            raise
    return _decode_strictly(mended, choose_box, enough, most_pixels)


def _decode_strictly(
    file: bytes, choose_box: Callable[[int, int], Box], enough: int | None, most_pixels: int
) -> Pixels:
    try:
        height, width, colour, _ = simplejpeg.decode_jpeg_header(file)
    except KeyError:  # sampling factors without a name
        raise _UnsupportedJpegError from None
    check_size(height, width, most_pixels)
    if colour not in _COLOURS:
        raise _UnsupportedJpegError
    orientation = read_orientation(file)
    sides = (width, height) if orientation > 4 else (height, width)
    box = choose_box(*sides)
    if _COLOURS[colour] == "CMYK":
        return _from_cmyk(_cut(upright(simplejpeg.decode_jpeg(file, "CMYK"), orientation), box))
    fraction = 1 if enough is None else next((f for f in _FRACTIONS if min(box[2:]) >= f * enough), 1)
    pixels_HWC = simplejpeg.decode_jpeg(file, min_height=-(-height // fraction), min_width=-(-width // fraction))
    pixels_HWC = upright(pixels_HWC, orientation)
    return _cut(pixels_HWC, _scaled(box, sides, pixels_HWC.shape[:2]))


def _from_cmyk(inks_HWC: Pixels) -> Pixels:
    """Convert as Pillow does: files hold the complement of the inks, as Adobe's programs write it."""
    height, width, _ = inks_HWC.shape
    return np.array(Image.frombuffer("CMYK", (width, height), inks_HWC, "raw", "CMYK;I", 0, 1).convert("RGB"))


def upright(pixels_HWC: Pixels, orientation: int) -> Pixels:
    """Return a view of the pixels that is upright; the orientation is EXIF's."""
    if orientation > 4:
        pixels_HWC = pixels_HWC.swapaxes(0, 1)
    down, right = _MIRRORED[(orientation - 1) % 4]
    return pixels_HWC[::down, ::right]


def _scaled(box: Box, full: tuple[int, int], decoded: tuple[int, ...]) -> Box:
    """Scale a box from the full size to the decoded size, both (height, width)."""
    top, left, rows, columns = (side * decoded[n % 2] / full[n % 2] for n, side in enumerate(box))
    rows, columns = round(rows), round(columns)
    return min(round(top), decoded[0] - rows), min(round(left), decoded[1] - columns), rows, columns


def _cut(pixels_HWC: Pixels, box: Box) -> Pixels:
    top, left, rows, columns = box
    return np.ascontiguousarray(pixels_HWC[top : top + rows, left : left + columns])
