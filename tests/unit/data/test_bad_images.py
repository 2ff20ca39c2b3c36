"""Every damaged picture is found, whatever process looks at it; healthy ones are not."""

import io
import random
import zlib
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data import bad_images
from accel_train.data.bad_images import Pictures, check_pictures, header_problems
from accel_train.data.sources.picture_files import FolderSource


def encoded(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (40 + number, 64, 3), np.uint8)
    file = io.BytesIO()
    kind, options = (("jpeg", {}), ("png", {}), ("jpeg", {"progressive": True}))[number % 3]
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def pictures(folder: Path, *parts: tuple[str, ...]) -> Pictures:
    """Return the files of a folder, in some sources."""
    zeros = np.zeros(max(map(len, parts)), np.int64)
    return Pictures([FolderSource(("a",), folder, part, zeros[: len(part)], zeros[: len(part)]) for part in parts])


def damaged(file: bytes, number: int) -> bytes:
    chance = random.Random(number)
    place = chance.randrange(len(file) // 10, len(file) - 90)
    end = file[-2:] if file.startswith(b"\xff") else file[-12:]
    return (
        file[:place],
        file[:place] + end,
        file[:place] + bytes(80) + file[place + 80 :],
        file[:place] + chance.randbytes(64) + file[place:],
        file[:-2] + chance.randbytes(64) + file[-2:],
        file[:place] + bytes([file[place] ^ 1 << chance.randrange(8)]) + file[place + 1 :],
    )[number // 3 % 6]


def strict_decoding_fails(file: bytes) -> bool:
    """Return what libjpeg, or the checksums of a PNG, say of the whole file."""
    if file.startswith(b"\xff\xd8"):
        try:
            simplejpeg.decode_jpeg(file)
        except ValueError:
            return True
        return False
    position = 8
    while position < len(file):
        end = position + 8 + int.from_bytes(file[position : position + 4])
        if zlib.crc32(file[position + 4 : end]).to_bytes(4) != file[end : end + 4]:
            return True
        if file[position + 4 : position + 8] == b"IEND":
            return False
        position = end + 4
    return True


def test_check_finds_what_strict_decoding_of_the_whole_file_finds(tmp_path: Path) -> None:
    expected = []
    for number in range(144):
        healthy = encoded(number)
        file = damaged(healthy, number) if number < 108 else healthy
        (tmp_path / f"{number}").write_bytes(file)
        if strict_decoding_fails(file):
            expected.append(number)
    assert len(expected) > 90
    assert expected[-1] < 108
    names = tuple(map(str, range(144)))
    found = pictures(tmp_path, names[:50], names[50:])
    checked = list(check_pictures(found, range(144), MOST_PIXELS, 2))
    assert sorted(image.index for part in checked for image in part.bad) == expected
    sizes = {size for part in checked for size in part.sizes}
    assert {(40 + number, 64) for number in range(108, 144)} <= sizes
    odd = [image for part in check_pictures(found, range(1, 144, 2), MOST_PIXELS, 0) for image in part.bad]
    assert [image.index for image in odd] == [number for number in expected if number % 2]


def test_header_problems_need_no_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in {
        "half": damaged(encoded(0), 0),
        "empty": b"",
        "page": b"<!DOCTYPE html>not found",
        "good": encoded(1),
    }.items():
        (tmp_path / name).write_bytes(content)
    Image.new("RGB", (2, 2)).save(tmp_path / "dib", "dib")  # has no signature, and is a picture
    names = ("half", "empty", "missing", "page", "dib", "good")
    listed = pictures(tmp_path, names)
    found = {image.index: image.reason for image in header_problems(listed, range(6), MOST_PIXELS)}
    assert found == {
        1: "the file is empty",
        2: f"[Errno 2] No such file or directory: '{tmp_path}/missing'",
        3: "not a picture of a known format",
    }
    monkeypatch.setattr(bad_images, "_HEADER_SECONDS", -1.0)
    assert not list(header_problems(listed, range(6), MOST_PIXELS))


def test_limit_of_pixels_holds(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(encoded(1))
    listed = pictures(tmp_path, ("1",))
    ((found,),) = (part.bad for part in check_pictures(listed, [0], 41 * 64 - 1, 0))
    assert found.reason == "64 × 41 pixels, more than the 2,623 of --max-pixels, which may be raised"
    assert [part.bad for part in check_pictures(listed, [0], 41 * 64, 0)] == [()]
    assert listed.name(0) == str(tmp_path / "1")
