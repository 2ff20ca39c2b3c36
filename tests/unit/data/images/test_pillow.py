"""Pillow decodes without warnings, within our limit of pixels, and only pictures."""

import io
import os
import struct
import warnings

import numpy as np
import pytest
from PIL import Image

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.images.decode import decode_window
from accel_train.data.images.pillow import decode_with_pillow, stored_size

SMALL = Image.new("RGB", (64, 48), (90, 90, 90))


def saved(kind: str, picture: Image.Image = SMALL, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def decoded(file: bytes, *limit: int) -> np.ndarray:
    return decode_window(file, lambda height, width: (0, 0, height, width), 64, *limit)


def patched(file: bytes, position: int, data: bytes) -> bytes:
    return file[:position] + data + file[position + len(data) :]


def test_warnings_that_are_errors_change_nothing() -> None:
    palette = Image.linear_gradient("L").convert("P")
    files = [saved("png", palette, transparency=bytes(range(256))), saved("tiff", SMALL)[:-4] + b"\1\0\0\0"]
    with warnings.catch_warnings(action="ignore"):
        expected = [decoded(file) for file in files]
    with warnings.catch_warnings(action="error"):
        for file, pixels in zip(files, expected, strict=True):
            assert np.array_equal(decoded(file), pixels)
    assert Image.MAX_IMAGE_PIXELS == 89_478_485


def test_libtiff_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    file = saved("tiff", compression="tiff_deflate")
    with pytest.raises(OSError, match="decoder error"):
        decoded(file.replace(file[8:12], b"\0\0\0\0"))
    assert capfd.readouterr().err == ""
    os.write(2, b"later")
    assert capfd.readouterr().err == "later"


BOMBS = {
    "progressive JPEG": lambda: patched(
        saved("jpeg", progressive=True),
        saved("jpeg", progressive=True).index(b"\xff\xc2") + 5,
        struct.pack(">HH", 30_000, 30_000),
    ),
    "GIF": lambda: patched(saved("gif", SMALL.convert("P")), 6, struct.pack("<HH", 30_000, 30_000)),
    "BMP": lambda: patched(saved("bmp"), 18, struct.pack("<ii", 30_000, 30_000)),
    "TGA": lambda: patched(saved("tga"), 12, struct.pack("<HH", 30_000, 30_000)),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bomb_is_refused_from_its_header(kind: str) -> None:
    with pytest.raises(
        ValueError, match=r"^30,000 × 30,000 pixels, more than the 134,217,728 of --max-pixels, which may be raised$"
    ):
        decoded(BOMBS[kind]())


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_limit_of_pixels_can_be_changed(kind: str) -> None:
    assert decoded(saved(kind), 64 * 48).shape == (48, 64, 3)
    with pytest.raises(ValueError, match=r"^64 × 48 pixels, more than the 3,071 of --max-pixels, which may be raised$"):
        decoded(saved(kind), 64 * 48 - 1)
    assert 12_000 * 9_000 < MOST_PIXELS < 13_000**2


@pytest.mark.parametrize("kind", ["jpeg", "png", "tiff", "webp", "avif"])
def test_orientation_is_read_and_broken_metadata_are_ignored(kind: str) -> None:
    exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"
    assert decode_with_pillow(saved(kind, exif=exif))[0].shape[:2] in ((48, 64), (64, 48))  # libtiff turns it
    assert decoded(saved(kind, exif=exif)).shape == (64, 48, 3)
    assert stored_size(io.BytesIO(saved(kind))) == (48, 64)
    if kind in ("png", "webp"):
        assert decoded(saved(kind, exif=b"Exif\0\0MM\0\x2a\xff\xff\xff\xff no EXIF")).shape == (48, 64, 3)


def test_heic_is_decoded() -> None:
    from pillow_heif import from_pillow

    file = io.BytesIO()
    from_pillow(SMALL).save(file)
    assert np.abs(decoded(file.getvalue()).astype(int) - 90).max() < 3


def test_first_picture_of_an_mpo_is_decoded() -> None:
    file = io.BytesIO()
    SMALL.save(file, "mpo", save_all=True, append_images=[Image.new("RGB", (64, 48), (200, 0, 0))])
    assert np.abs(decoded(file.getvalue()).astype(int) - 90).max() < 3


@pytest.mark.parametrize("file", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"<svg/>", b"<html>not found"])
def test_what_other_programs_would_decode_is_no_picture(file: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a picture of a known format$"):
        decoded(file)
