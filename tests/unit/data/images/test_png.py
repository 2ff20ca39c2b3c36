"""Damaged PNGs are errors; metadata of any size are not."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.images.decode import decode_window
from accel_train.data.images.png import SIGNATURE, checked_png


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def saved(**options: object) -> bytes:
    noise = np.random.default_rng(1).integers(0, 255, (24, 32, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "png", **options)
    return file.getvalue()


def decoded(file: bytes) -> np.ndarray:
    return decode_window(file, lambda height, width: (0, 0, height, width), 24)


HEADER_END = len(SIGNATURE) + 25


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda file: file[:-1], "ends within a chunk"),
        (lambda file: file[:-12], "its end is missing"),
        (lambda file: file[: len(file) // 2], "ends within a chunk"),
        (lambda file: file[:HEADER_END] + file[-12:], "it holds no pixels"),
        (lambda file: SIGNATURE + file[HEADER_END:], "its header is missing"),
        (lambda file: file[:-100] + bytes(60) + file[-40:], "the checksum of its chunk IDAT differs"),
        (lambda file: file[:1000] + b"0123" + file[1000:], "the checksum of its chunk IDAT differs"),
        (lambda file: file[:HEADER_END] + chunk(b"CgBI", b"1") + file[HEADER_END:], "the chunk CgBI"),
        (lambda file: file[:HEADER_END] + chunk(b"tEXt", b"a\0b")[:-1] + b"!" + file[HEADER_END:], "tEXt differs"),
    ],
)
def test_damage_is_an_error(change: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decoded(change(saved()))


def test_metadata_beyond_the_limits_of_pillow_do_not_refuse_a_picture() -> None:
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", "x" * 2**21, zip=True)
    texts.add_itxt("XML:com.adobe.xmp", "x" * 2**21, zip=True)
    file = saved(pnginfo=texts, icc_profile=bytes(2**21), exif=b"Exif\0\0no EXIF")
    with pytest.raises(ValueError, match="MAX_TEXT_CHUNK"):
        Image.open(io.BytesIO(file)).load()
    assert np.array_equal(decoded(file), decoded(saved()))


@pytest.mark.parametrize("zipped", [False, True])
def test_orientation_in_texts_is_kept(zipped: bool) -> None:
    xmp, other = PngImagePlugin.PngInfo(), PngImagePlugin.PngInfo()
    xmp.add_itxt("XML:com.adobe.xmp", 'x <tiff:Orientation="6"/>', zip=zipped)
    other.add_text("Comment", "x", zip=zipped)
    assert np.array_equal(decoded(saved(pnginfo=xmp)), np.rot90(decoded(saved()), -1))
    assert checked_png(saved(pnginfo=other), MOST_PIXELS) == saved()


def test_header_of_a_bomb_is_enough_to_refuse_it() -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 13_000, 13_000, 1, 0, 0, 0, 0))
    with pytest.raises(
        ValueError, match=r"^13,000 × 13,000 pixels, more than the 134,217,728 of --max-pixels, which may be raised$"
    ):
        decoded(SIGNATURE + header)
