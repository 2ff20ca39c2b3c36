"""Damaged JPEGs are errors; faults that change no pixel are not."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from accel_train.data.images.decode import decode_window
from accel_train.data.images.jpeg import without_harmless_faults


def saved(mode: str = "RGB", **options: object) -> bytes:
    noise = np.random.default_rng(1).integers(0, 255, (64, 96, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).convert(mode).save(file, "jpeg", **options)
    return file.getvalue()


def decoded(file: bytes) -> np.ndarray:
    return decode_window(file, lambda height, width: (0, 0, height, width), 64)


def with_byte(file: bytes, after: bytes, offset: int, value: int) -> bytes:
    changed = bytearray(file)
    changed[file.index(after) + len(after) + offset] = value
    return bytes(changed)


def padded(file: bytes, padding: bytes) -> bytes:
    return file[:-2] + padding + file[-2:]


HARMLESS = {
    "padding of zeros": lambda file: padded(file, bytes(65)),
    "old JFIF version": lambda file: with_byte(file, b"JFIF\0", 0, 2),
    "spectrum of the scan": lambda file: with_byte(file, b"\xff\xda\0\x0c\x03\1\0\2\x11\3\x11", 1, 0),
    "bytes after the end": lambda file: file + b"more",
}


@pytest.mark.parametrize("fault", HARMLESS)
def test_harmless_fault_changes_no_pixel(fault: str) -> None:
    file = saved()
    faulty = HARMLESS[fault](file)
    assert faulty != file
    assert np.array_equal(decoded(faulty), decoded(file))


def test_several_harmless_faults_of_a_large_thumbnail_and_picture() -> None:
    file = HARMLESS["spectrum of the scan"](saved(exif=b"Exif\0\0" + saved()[:5000]))
    assert np.array_equal(decoded(padded(file, bytes(3))), decoded(saved()))


def test_last_byte_that_is_escaped_stays() -> None:
    assert without_harmless_faults(b"\xff\xd8..\xff\0\0\0\xff\xd9") == b"\xff\xd8..\xff\0\xff\xd9"


DAMAGED = {
    "half": lambda file: file[: len(file) // 2],
    "half with an end": lambda file: file[: len(file) // 2] + b"\xff\xd9",
    "half with zeros and an end": lambda file: file[: len(file) // 2] + bytes(500) + b"\xff\xd9",
    "a hole": lambda file: file[:-900] + bytes(600) + file[-300:],
    "extraneous bytes": lambda file: padded(file, b"\x12\x34\x56\x78" * 16),
    "extraneous bytes at the beginning": lambda file: file[:2] + bytes(3) + file[2:],
}


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}], ids=str)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_an_error(damage: str, mode: str, options: dict[str, object]) -> None:
    reasons = r"premature end|extraneous bytes|bad Huffman code|found marker .* instead of RST|Invalid progressive"
    with pytest.raises(ValueError, match=re.compile(reasons, re.IGNORECASE)):
        decoded(DAMAGED[damage](saved(mode, **options)))


def test_sampling_that_simplejpeg_does_not_know_is_decoded_by_pillow() -> None:
    file = with_byte(saved(subsampling=0), b"\xff\xc0\0\x11\x08\0\x40\0\x60\3\1", 0, 0x13)  # lacks blocks
    assert decoded(file).shape == (64, 96, 3)
