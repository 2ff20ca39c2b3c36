"""Reads pictures in zips without unpacking them to disk; a member that would fill the memory is refused."""

import struct
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from accel_train.system.regular_files import open_regular

MOST_BYTES = 2**30
"""Of a picture file: as large is a picture of `MOST_PIXELS` with 16-bit RGBA samples, without compression."""
_HEADER = struct.Struct("<4s22xHH")
"""Signature of a member's header in front of its bytes, and the lengths of the name and extra field after it."""
_SIGNATURE = b"PK\3\4"
_ENCRYPTED = 0x1
"""Bit of a member's flags."""


class Member(NamedTuple):
    """What a zip tells of a file in it."""

    name: str
    """Never used as a path: it may begin with / or contain .. or be anything else."""
    offset: int
    """Of its header in the zip."""
    method: int
    encrypted: bool
    compressed_size: int
    size: int
    crc: int


def list_members(path: str) -> list[Member]:
    """Return the files in a zip, in its order.

    Raises:
        Exception: it is no zip, or a damaged one; `zipfile` raises any type.
    """
    with open_regular(Path(path)) as file, zipfile.ZipFile(file) as archive:
        return [
            Member(
                name=found.filename,
                offset=found.header_offset,
                method=found.compress_type,
                encrypted=bool(found.flag_bits & _ENCRYPTED),
                compressed_size=found.compress_size,
                size=found.file_size,
                crc=found.CRC,
            )
            for found in archive.infolist()
            if not found.is_dir()
        ]


def read_member(path: str, member: Member) -> bytes:
    """Return the content of a member of a zip, and take no more memory than it claims to have, whatever it is.

    Raises:
        ValueError: it is damaged, encrypted, too large or compressed with an unusual method.
        OSError: the zip cannot be read.
    """
    if member.encrypted:
        raise ValueError("it is encrypted")
    for size in (member.size, member.compressed_size):
        if size > MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes, more than {MOST_BYTES:,}")
    with open_regular(Path(path)) as file:
        file.seek(max(0, member.offset))
        header = file.read(_HEADER.size)
        if not header.startswith(_SIGNATURE) or len(header) < _HEADER.size:
            raise ValueError("damaged zip: the header of this file is missing")
        file.seek(sum(_HEADER.unpack(header)[1:]), 1)
        content = _decompressed(file.read(member.compressed_size), member)
    if len(content) != member.size or zlib.crc32(content) != member.crc:
        raise ValueError("damaged zip: the checksum of this file differs")
    return content


def _decompressed(data: bytes, member: Member) -> bytes:
    if member.method == zipfile.ZIP_STORED:
        return data
    if member.method != zipfile.ZIP_DEFLATED:
        raise ValueError(f"it is compressed with method {member.method}: zip it with deflate, the usual one")
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, member.size + 1)
    except zlib.error:
        raise ValueError("damaged zip: this file cannot be decompressed") from None
