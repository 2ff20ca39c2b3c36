"""The contact sheet: where its images are, and captions that fit."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from accel_train.errors import UserError
from accel_train.run.contact_sheet import Captioned, write_sheet


def plain(size: int, *colour: int, caption: tuple[str, ...] = ("cat",)) -> Captioned:
    return Captioned(np.full((size, size, 3), colour, np.uint8), caption)


def sheet(folder: Path, *images: Captioned, title: tuple[str, ...] = ("title",)) -> Image.Image:
    path = folder / "sheet.png"
    size = write_sheet(path, title, images, "--output")
    found = Image.open(io.BytesIO(path.read_bytes()))
    assert (found.size, found.format) == (size, "PNG")
    return found.convert("RGB")


def columns_of(found: Image.Image, colour: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return the box of a colour: left, top, right, bottom."""
    rows, columns = np.nonzero((np.asarray(found) == colour).all(axis=2))
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def test_images_stand_in_rows_at_their_pixels(tmp_path: Path) -> None:
    colours = [(200, number, 7) for number in range(6)]
    found = sheet(tmp_path, *(plain(128, *colour) for colour in colours))
    boxes = [columns_of(found, colour) for colour in colours]
    assert all(right - left == bottom - top == 128 for left, top, right, bottom in boxes)
    assert [box[0] for box in boxes] == [8, 144, 280, 416, 8, 144]
    assert boxes[4][1] - boxes[0][1] == 128 + 18 + 8


def test_small_images_are_enlarged_without_blur(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[0, 0] = 10, 20, 30
    found = sheet(tmp_path, Captioned(pixels, ("7",)))
    left, top, right, bottom = columns_of(found, (10, 20, 30))
    assert (right - left, bottom - top) == (12, 12)
    assert columns_of(found, (0, 0, 0))[2] >= 8 + 96


def test_long_captions_and_titles_stay_in_their_place(tmp_path: Path) -> None:
    name = "a class with a very long name, in which é and \x1b are no trouble"
    images = [plain(96, 1, 2, 3, caption=(name, "x")), plain(96, 4, 5, 6)]
    short, long = (sheet(tmp_path, *images, title=(title,)) for title in ("t", "title " * 100))
    assert short.size == long.size
    assert short.size == (2 * 104 + 8, 18 + 16 + 96 + 2 * 18 + 8)
    gap = np.asarray(short)[34 + 96 : 34 + 96 + 18, 8 + 96 : 8 + 104]
    assert (gap == 255).all()


def test_sheet_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError) as caught:
        write_sheet(tmp_path / "folder", (), [plain(96, 1, 2, 3)], "--show")
    assert caught.value.message == f"cannot write {tmp_path}/folder: Is a directory"
    assert caught.value.hint == "give another --show"
    with pytest.raises(UserError, match="none is missing: it has been removed or renamed"):
        write_sheet(tmp_path / "none/sheet.png", (), [plain(96, 1, 2, 3)], "--show")
