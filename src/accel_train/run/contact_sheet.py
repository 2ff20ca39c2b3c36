"""Draws images with captions on one PNG, a contact sheet.

Shape suffixes: H height, W width, C channels.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from accel_train.loggers.text import printable
from accel_train.system.atomic_files import write_output

_LEAST_SIDE = 96
"""Smaller images are enlarged, so that captions fit."""
_MARGIN, _LINE, _FONT_SIZE = 8, 18, 14
_BACKGROUND, _INK = "white", "black"


@dataclass(frozen=True)
class Captioned:
    """An image, and the lines below it."""

    pixels_HWC: NDArray[np.uint8]
    caption: tuple[str, ...]


def write_sheet(path: Path, title: Sequence[str], images: Sequence[Captioned], option: str) -> tuple[int, int]:
    """Write a PNG of images in rows, as near to a square as they allow; return its width and height.

    `option` has named the file.

    Raises:
        UserError: it cannot be written.
    """
    sheet = _draw(title, images)
    content = io.BytesIO()
    sheet.save(content, "PNG")
    write_output(path, content.getvalue(), option)
    return sheet.size


def _draw(title: Sequence[str], images: Sequence[Captioned]) -> Image.Image:
    height, width = images[0].pixels_HWC.shape[:2]
    times = math.ceil(_LEAST_SIDE / width)
    lines = max(len(image.caption) for image in images)
    cell = width * times + _MARGIN, height * times + lines * _LINE + _MARGIN
    columns = min(len(images), max(4, round(math.sqrt(len(images) * cell[1] / cell[0]))))
    rows = math.ceil(len(images) / columns)
    top = len(title) * _LINE + 2 * _MARGIN
    sheet = Image.new("RGB", (columns * cell[0] + _MARGIN, top + rows * cell[1]), _BACKGROUND)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT_SIZE)

    def write(x: int, y: int, text: str, room: int) -> None:
        pen.text((x, y), _fitted(printable(text), room, font), _INK, font)

    for number, text in enumerate(title):
        write(_MARGIN, _MARGIN + number * _LINE, text, sheet.width - 2 * _MARGIN)
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        left, upper = _MARGIN + column * cell[0], top + row * cell[1]
        sheet.paste(_enlarged(image.pixels_HWC, times), (left, upper))
        for line, text in enumerate(image.caption):
            write(left, upper + height * times + line * _LINE, text, width * times)
    return sheet


def _enlarged(pixels_HWC: NDArray[np.uint8], times: int) -> Image.Image:
    return Image.fromarray(pixels_HWC.repeat(times, axis=0).repeat(times, axis=1))


def _fitted(text: str, room: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Shorten a text to what fits into some pixels."""
    if font.getlength(text) <= room:
        return text
    kept = next((end for end in range(len(text), 0, -1) if font.getlength(text[:end] + "…") <= room), 0)
    return text[:kept] + "…"
