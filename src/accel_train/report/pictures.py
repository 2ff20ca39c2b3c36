"""Pictures inside the page, as data URIs.

Shape suffixes: H height, W width, C channels.
"""

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST_SIDE = 176
"""Pixels; larger pictures are reduced."""
_PIXELATED_BELOW = 97
"""Smaller pictures are shown pixel by pixel, and stored without loss."""
_QUALITY = 82


@dataclass(frozen=True)
class Picture:
    """A picture on the page."""

    uri: str
    is_small: bool
    """Enlarged with its pixels visible."""


@dataclass(frozen=True)
class Mistake:
    """An image whose class was predicted wrongly."""

    picture: Picture | None
    """None if it cannot be read any more."""
    name: str
    label: str
    predicted: str
    confidence: float
    label_probability: float


@dataclass(frozen=True)
class Sample:
    """An image of the first update, as the model was given it."""

    picture: Picture
    caption: tuple[str, ...]


def picture(pixels_HWC: NDArray[np.uint8]) -> Picture:
    """Return an RGB image as a picture of the page."""
    from PIL import Image

    image, content = Image.fromarray(pixels_HWC), io.BytesIO()
    if is_small := max(image.size) < _PIXELATED_BELOW:
        image.save(content, "PNG", optimize=True)
    else:
        image.thumbnail((_MOST_SIDE, _MOST_SIDE))
        image.save(content, "JPEG", quality=_QUALITY, optimize=True)
    kind = "png" if is_small else "jpeg"
    return Picture(f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}", is_small)
