"""Decodes picture files with Pillow: without its warnings, and within our limit of pixels.

Shape suffixes: H height, W width, C channels.
"""

import io
import logging
import os
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.images.samples import as_rgb

_TIFF = (b"II", b"MM")
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "PPM", "TIFF", "JPEG2000", "AVIF", "HEIF", "TGA")
"""In the order in which they are tried: TGA has no signature. Pillow reads others by starting other programs."""


def check_size(height: int, width: int, most_pixels: int) -> None:
    """Refuse a picture that would fill the memory, before a decoder gets it.

    Raises:
        ValueError: it has too many pixels.
    """
    if height * width > most_pixels:
        size = f"{width:,} × {height:,} pixels"
        raise ValueError(f"{size}, more than the {most_pixels:,} of --max-pixels, which may be raised")


def decode_with_pillow(file: bytes, most_pixels: int = MOST_PIXELS) -> tuple[NDArray[np.uint8], int]:
    """Return the pixels_HWC of a picture as they are stored, which cannot be written, and its EXIF orientation, 1 to 8.

    Raises:
        Exception: the file is damaged or not a picture; Pillow's plugins raise any type, such as struct.error.
    """
    silence = _silenced() if file.startswith(_TIFF) else nullcontext()
    with silence, _undisturbed(), _opened(io.BytesIO(file)) as picture:
        check_size(*picture.size[::-1], most_pixels)
        picture.load()
        return np.asarray(as_rgb(picture)), orientation_of(picture)


def stored_size(file: IO[bytes]) -> tuple[int, int]:
    """Return height and width of an open picture file, from its header.

    Raises:
        Exception: as :func:`decode_with_pillow`.
    """
    with _undisturbed(), _opened(file) as picture:
        return picture.size[::-1]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep Pillow from warning, whatever PYTHONWARNINGS says, and from applying its own limit of pixels."""
    limit = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings(action="ignore"):
        Image.MAX_IMAGE_PIXELS = None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


@contextmanager
def _silenced() -> Iterator[None]:
    """Drop what libtiff and Pillow write to stderr: it does not name the file, and the error tells as much."""
    logger = logging.getLogger("PIL")
    level, stderr = logger.level, None
    with suppress(OSError):  # it is closed
        stderr = os.dup(2)
    logger.setLevel(logging.CRITICAL)
    try:
        if stderr is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            os.close(null)
        yield
    finally:
        logger.setLevel(level)
        if stderr is not None:
            os.dup2(stderr, 2)
            os.close(stderr)


def _opened(file: IO[bytes]) -> Image.Image:
    if file.read(8).endswith(b"ftyp"):
        _register_heif()
    try:
        return Image.open(file, formats=[name for name in _FORMATS if name in _known()])
    except UnidentifiedImageError:  # its message names the buffer
        raise ValueError("not a picture of a known format") from None


@cache
def _register_heif() -> None:
    if find_spec("pillow_heif"):
        from pillow_heif import register_heif_opener

        register_heif_opener()


def _known() -> Collection[str]:
    Image.init()
    return Image.OPEN


def orientation_of(picture: Image.Image) -> int:
    """Return the orientation of a loaded picture; 1 if its metadata cannot be read."""
    with suppress(Exception):  # plugins raise any type
        if (found := picture.getexif().get(ExifTags.Base.Orientation, 1)) in range(1, 9):
            return int(found)
    return 1
