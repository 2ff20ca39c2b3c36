"""Every sample format goes from its own black to its own white; none is black in silence."""

import io
import struct
from collections.abc import Mapping

import numpy as np
import PIL
import pytest
from PIL import Image

from accel_train.data.images.decode import decode_window
from accel_train.data.images.samples import as_rgb

RAMP = np.linspace(0, 1, 16, dtype=np.float32).repeat(8).reshape(16, 8)
GREY = Image.fromarray((RAMP * 255).astype(np.uint8))
WHITE_IS_ZERO = {262: 0}


def saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def decoded(file: bytes) -> np.ndarray:
    return decode_window(file, lambda height, width: (0, 0, height, width), 16)


def tiff(samples: np.ndarray, tags: Mapping[int, object] = {}) -> np.ndarray:
    return decoded(saved(Image.fromarray(samples), "tiff", tiffinfo=dict(tags)))[..., 0]


YCBCR = ["YCbCr"] if int(PIL.__version__.partition(".")[0]) >= 13 else []  # Pillow 12 refuses those that it has written


@pytest.mark.parametrize(
    ("kind", "modes"),
    [
        ("png", ["1", "L", "P", "LA", "RGB", "RGBA"]),
        ("tiff", ["1", "L", "P", "LA", "PA", "RGB", "RGBA", "RGBX", "CMYK", *YCBCR]),
        ("gif", ["1", "L", "P", "RGB", "RGBA"]),
        ("bmp", ["1", "L", "P", "RGB", "RGBA"]),
        ("webp", ["1", "L", "P", "RGB", "RGBA"]),
        ("tga", ["1", "L", "P", "LA", "RGB", "RGBA"]),
        ("ppm", ["1", "L", "RGB", "RGBA"]),
        ("jpeg2000", ["L", "LA", "RGB", "RGBA", "YCbCr", "CMYK"]),
        ("avif", ["L", "LA", "RGB", "RGBA"]),
    ],
)
def test_each_format_goes_from_black_to_white(kind: str, modes: list[str]) -> None:
    for mode in modes:
        source = GREY.convert("1", dither=Image.Dither.NONE) if mode == "1" else GREY.convert("RGB").convert(mode)
        options = {"lossless": True} if kind == "webp" else {}
        pixels_HWC = decoded(saved(source, kind, **options))
        expected_HW = np.asarray(source.convert("L"))
        assert np.abs(pixels_HWC - expected_HW[..., None].astype(int)).max() <= (2 if kind == "avif" else 0), mode


@pytest.mark.parametrize("kind", ["png", "tiff", "ppm", "jpeg2000"])
def test_16_bits_keep_their_high_byte(kind: str) -> None:
    samples = (RAMP * 65_535).astype(np.uint16)
    assert np.array_equal(decoded(saved(Image.fromarray(samples), kind))[..., 0], samples >> 8)


def test_wider_samples_are_scaled() -> None:
    rounded = np.rint(RAMP * 255)
    assert np.array_equal(tiff(RAMP), rounded)
    assert (tiff(np.full((4, 4), 0.5, np.float32)) == 128).all()
    assert np.array_equal(tiff(RAMP, WHITE_IS_ZERO), 255 - rounded)
    assert np.array_equal(tiff(RAMP * 900 - 100, {340: -100.0, 341: 800.0}), rounded)
    assert np.array_equal(tiff((RAMP.astype(np.float64) * (2**31 - 1)).astype(np.int32)), rounded)
    unsigned = Image.fromarray((RAMP.astype(np.float64) * (2**32 - 1)).astype(np.uint32).view(np.int32))
    signed_tag = struct.pack("<HHIH", 339, 3, 1, 2)
    assert np.array_equal(
        decoded(saved(unsigned, "tiff").replace(signed_tag, signed_tag[:-2] + b"\1\0"))[..., 0], rounded
    )
    sixteen = (RAMP * 65_535).astype(np.uint16)
    assert np.array_equal(tiff(sixteen, WHITE_IS_ZERO), 255 - (sixteen >> 8))


def test_12_bits_keep_their_high_byte() -> None:
    tags = {256: 2, 257: 2, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 2, 279: 6}
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    rows = bytes.fromhex("000fff8007ff")  # 0, 4,095, 2,048 and 2,047
    file = struct.pack("<2sHI", b"II", 42, 14) + rows + struct.pack("<H", len(tags)) + directory + bytes(4)
    assert decoded(file)[..., 0].tolist() == [[0, 255], [128, 127]]


def test_signed_samples_are_scaled() -> None:
    signed = (RAMP * 127).astype(np.uint8)
    assert np.array_equal(tiff(signed, {339: 2}), signed * 2)
    with pytest.raises(ValueError, match=r"^samples from -120 to 119, but their format goes from 0 \(black\) to 127"):
        tiff((RAMP * 255).astype(np.uint8), {339: 2})


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (RAMP * 255, r"^samples from 0 to 255, but their format goes from 0 \(black\) to 1 \(white\): convert it to 8"),
        (RAMP - 1, r"^samples from -1 to 0, but"),
        (RAMP * np.nan, r"^samples from nan to nan, but"),
        ((RAMP * 200).astype(np.uint16), r"^samples from 0 to 200 would all be black: .* to 65,535 \(white\)"),
        ((RAMP * 65_535).astype(np.int32), r"^samples from 0 to 65,535 would all be black: .* to 2,147,483,647 "),
    ],
)
def test_samples_of_unknown_meaning_are_named(samples: np.ndarray, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        tiff(samples)


def test_black_picture_of_16_bits_is_black() -> None:
    assert not tiff(np.zeros((4, 4), np.uint16)).any()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "La", "RGBa", "PA"])
def test_what_is_transparent_is_blended_over_white(mode: str) -> None:
    alpha_HW = np.tile(np.array([0, 64, 128, 255], np.uint8), (16, 2))
    clear = GREY.convert("RGBA" if mode in ("RGBa", "PA") else "LA" if mode == "La" else mode)
    clear.putalpha(Image.fromarray(alpha_HW))
    expected_HW = 255 - (255 - np.asarray(GREY).astype(int)) * alpha_HW / 255
    found_HWC = np.asarray(as_rgb(clear.convert(mode)))
    assert np.abs(found_HWC - expected_HW[..., None]).max() <= 3  # colours times alpha are rounded before


def test_transparent_colours_of_a_palette_are_blended_over_white() -> None:
    alphas = np.full(256, 255, np.uint8)
    alphas[:2] = 0, 128
    indices_HW = np.arange(4, dtype=np.uint8).repeat(4).reshape(4, 4)
    picture = Image.fromarray(indices_HW).convert("P")
    found_HWC = decoded(saved(picture, "png", transparency=alphas.tobytes()))
    assert found_HWC[:, 0].tolist() == [[255] * 3, [128] * 3, [2] * 3, [3] * 3]
    assert decoded(saved(picture, "png", transparency=3))[:, 0, 0].tolist() == [0, 1, 2, 255]


def test_transparent_grey_of_16_bits_is_white() -> None:
    samples = (RAMP * 65_535).astype(np.uint16)
    file = saved(Image.fromarray(samples), "png", transparency=0)
    assert (decoded(file)[0] == 255).all()
    assert np.array_equal(decoded(file)[1:, :, 0], samples[1:] >> 8)
