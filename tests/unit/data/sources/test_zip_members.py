"""Members of a zip are read into memory, and those that would fill it are refused."""

import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest

from accel_train.data.sources.zip_members import MOST_BYTES, list_members, read_member

CONTENT = bytes(range(256)) * 100


def made(folder: Path, method: int = zipfile.ZIP_DEFLATED, data: bytes = CONTENT) -> Path:
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("first.jpg", data)
    return path


def content(path: Path, number: int = 0) -> bytes:
    return read_member(str(path), list_members(str(path))[number])


def edited(path: Path, *changes: tuple[int, int, str, int]) -> Path:
    """Write numbers into the headers of the only member: their offsets in the local and central one, format, value."""
    data = bytearray(path.read_bytes())
    central = data.rindex(b"PK\1\2")
    for in_local, in_central, kind, value in changes:
        struct.pack_into(kind, data, in_local, value)
        struct.pack_into(kind, data, central + in_central, value)
    path.write_bytes(data)
    return path


FLAGS, CRC, SIZE = (6, 8, "<H"), (14, 16, "<I"), (22, 24, "<I")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_listed_and_read(tmp_path: Path, method: int) -> None:
    path = made(tmp_path, method)
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.mkdir("folder")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("first.jpg", b"another of the same name")
    assert [member.name for member in list_members(str(path))] == ["first.jpg", "first.jpg"]
    assert content(path) == CONTENT
    assert content(path, 1) == b"another of the same name"


def test_zip_behind_other_bytes_is_read(tmp_path: Path) -> None:
    path = made(tmp_path)
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    assert content(path) == CONTENT


def test_fields_of_zip64_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive, archive.open("a.jpg", "w", force_zip64=True) as file:
        file.write(CONTENT)
    assert content(tmp_path / "a.zip") == CONTENT


def test_nothing_is_written_to_disk(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("../slipped.jpg", CONTENT)
    assert content(folder / "a.zip") == CONTENT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.zip", "inner"]


def test_member_that_claims_to_be_huge_is_refused(tmp_path: Path) -> None:
    path = edited(made(tmp_path), (*SIZE, MOST_BYTES + 1))
    with pytest.raises(ValueError, match=f"it has {MOST_BYTES + 1:,} bytes, more than {MOST_BYTES:,}"):
        content(path)


def test_bomb_that_claims_to_be_small_takes_no_memory(tmp_path: Path) -> None:
    huge = b"\0" * (64 << 20)
    path = edited(made(tmp_path, data=huge), (*SIZE, 1000))
    del huge
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="damaged zip: the checksum of this file differs"):
            content(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("size", [0, 1000])
def test_size_that_is_not_that_of_the_content_is_refused(tmp_path: Path, method: int, size: int) -> None:
    path = edited(made(tmp_path, method), (*SIZE, size), (*CRC, zlib.crc32(CONTENT[:size])))
    with pytest.raises(ValueError, match="damaged zip: the checksum of this file differs"):
        content(path)


@pytest.mark.parametrize(("method", "number"), [(zipfile.ZIP_BZIP2, 12), (zipfile.ZIP_LZMA, 14)])
def test_method_that_python_decompresses_without_limit_is_refused(tmp_path: Path, method: int, number: int) -> None:
    with pytest.raises(ValueError, match=f"it is compressed with method {number}: zip it with deflate"):
        content(made(tmp_path, method))


def test_encrypted_member_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it is encrypted"):
        content(edited(made(tmp_path), (*FLAGS, 1)))


def test_damaged_member_and_damaged_zip_are_errors(tmp_path: Path) -> None:
    path = made(tmp_path)
    (member,) = list_members(str(path))
    whole = path.read_bytes()
    for damaged, message in (
        (b"XX" + whole[2:], "the header of this file is missing"),
        (whole[:20], "the header of this file is missing"),
        (whole[:60], "the checksum of this file differs"),
        (whole[:40] + b"\xff" * 20 + whole[60:], "this file cannot be decompressed"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"damaged zip: {message}"):
            read_member(str(path), member)
    path.write_bytes(whole[:-30])
    with pytest.raises(zipfile.BadZipFile, match="File is not a zip file"):
        list_members(str(path))
