"""Converts a picture to 8-bit RGB: each sample format from its own black to its own white.

Shape suffixes: H height, W width.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_BITS, _PHOTOMETRIC, _FORMAT, _LOWEST, _HIGHEST = 258, 262, 339, 340, 341  # tags of TIFF 6.0
_WHITE_IS_ZERO = 0
_SIGNED = 2
_WHITE = (255, 255, 255, 255)


class _Range(NamedTuple):
    """What grey samples mean."""

    bits: int
    signed: bool
    black: float
    white: float

    def __str__(self) -> str:
        return f"{self.black:,.10g} (black) to {self.white:,.10g} (white)"


def as_rgb(picture: Image.Image) -> Image.Image:
    """Convert a loaded picture; what is transparent is blended over white.

    Raises:
        ValueError: samples are outside of the range of their format, or so small in it that all would be black.
    """
    if picture.mode == "F" or picture.mode.startswith("I") or _tag(picture, _FORMAT) == _SIGNED:
        return _grey(picture).convert("RGB")
    if picture.mode == "La":  # premultiplied; Pillow converts it to LA only
        picture = picture.convert("LA")
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return picture
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    picture = picture.convert("RGBA")
    if picture.getchannel("A").getextrema() == (255, 255):
        return picture.convert("RGB")
    return Image.alpha_composite(Image.new("RGBA", picture.size, _WHITE), picture).convert("RGB")


def _grey(picture: Image.Image) -> Image.Image:
    range_ = _range_of(picture)
    samples_HW = _samples(picture, range_)
    lowest, highest = samples_HW.min(), samples_HW.max()
    found = f"samples from {lowest:,.10g} to {highest:,.10g}"
    if not range_.black <= lowest <= highest <= range_.white:  # nor NaN
        raise ValueError(f"{found}, but their format goes from {range_}: convert it to 8 bits")
    if range_.bits <= 16:
        bytes_HW = samples_HW >> range_.bits - range_.signed - 8 if range_.bits > 8 else samples_HW << 1
    else:
        bytes_HW = np.rint((samples_HW - range_.black) * (255 / (range_.white - range_.black)))
    bytes_HW = bytes_HW.astype(np.uint8)
    if highest > range_.black and not bytes_HW.any():
        raise ValueError(f"{found} would all be black: their format goes from {range_}: convert it to 8 bits")
    if _tag(picture, _PHOTOMETRIC) == _WHITE_IS_ZERO:  # Pillow inverts up to 8 bits
        bytes_HW = 255 - bytes_HW
    if (clear := picture.info.get("transparency")) is not None:
        bytes_HW[samples_HW == clear] = 255
    return Image.fromarray(bytes_HW)


def _samples(picture: Image.Image, range_: _Range) -> NDArray[Any]:
    samples_HW: NDArray[Any] = np.asarray(picture)
    if range_.bits == 8:
        return samples_HW.view(np.int8)
    if range_.bits == 32 and picture.mode == "I" and not range_.signed:
        return samples_HW.view(np.uint32)
    return samples_HW


def _range_of(picture: Image.Image) -> _Range:
    """Return the range of grey samples; TIFFs of 32 bits may tell it."""
    bits, signed = int(_tag(picture, _BITS) or 16), _tag(picture, _FORMAT) == _SIGNED
    lowest, highest = _tag(picture, _LOWEST), _tag(picture, _HIGHEST)
    told = isinstance(lowest, int | float) and isinstance(highest, int | float)
    if bits >= 32 and told and -math.inf < lowest < highest < math.inf:
        return _Range(bits, signed, float(lowest), float(highest))
    if picture.mode == "F":
        return _Range(max(32, bits), signed, 0.0, 1.0)
    return _Range(bits, signed, 0.0, 2.0 ** (bits - signed) - 1)


def _tag(picture: Image.Image, number: int) -> Any:
    """Return the first value of a tag of a TIFF; None if there is none."""
    value = getattr(picture, "tag_v2", {}).get(number)
    return value[0] if isinstance(value, tuple) and value else value
