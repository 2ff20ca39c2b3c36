"""Checks the chunks of a PNG, and leaves out those that do not decide its pixels."""

import zlib
from collections.abc import Iterator
from contextlib import suppress

from accel_train.data.images.pillow import check_size

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER, _DATA, _END = b"IHDR", b"IDAT", b"IEND"
_KEPT = frozenset({_HEADER, b"PLTE", b"tRNS", _DATA, b"eXIf", _END})
_KNOWN_CRITICAL = frozenset({_HEADER, b"PLTE", _DATA, _END})
_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_ORIENTATIONS = frozenset({b"XML:com.adobe.xmp", b"Raw profile type exif"})
"""Keywords of texts that may hold the orientation."""
_MOST_TEXT = 2**16
"""Bytes of such a text; Pillow refuses a picture for longer ones."""


def checked_png(file: bytes, most_pixels: int) -> bytes:
    """Return a PNG with the chunks that decide its upright pixels alone; metadata of any size do no harm.

    Pillow does not verify the checksums of the coded pixels, nor that they are complete.

    Raises:
        ValueError: a chunk is damaged or missing, or the picture has more than `most_pixels`.
    """
    kept, names = [SIGNATURE], list[bytes]()
    for name, start, end in _chunks(file):
        if not names and name != _HEADER:
            raise ValueError("damaged PNG: its header is missing")
        if not names:
            width, height = (int.from_bytes(file[at : at + 4]) for at in (start + 8, start + 12))
            check_size(height, width, most_pixels)
        names.append(name)
        if name in _KEPT or (name in _TEXTS and _may_orient(name, file[start + 8 : end - 4])):
            kept.append(file[start:end])
    if not names or names[-1] != _END:
        raise ValueError("damaged PNG: its end is missing")
    if _DATA not in names:
        raise ValueError("damaged PNG: it holds no pixels")
    return file if len(kept) == len(names) + 1 else b"".join(kept)


def _chunks(file: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, start and end of each chunk up to the last."""
    position, name = len(SIGNATURE), b""
    while position < len(file) and name != _END:
        name = file[position + 4 : position + 8]
        data_end = position + 8 + int.from_bytes(file[position : position + 4])
        if data_end + 4 > len(file):
            raise ValueError("damaged PNG: it ends within a chunk")
        if zlib.crc32(file[position + 4 : data_end]) != int.from_bytes(file[data_end : data_end + 4]):
            raise ValueError(f"damaged PNG: the checksum of its chunk {_shown(name)} differs")
        if name[0] & 0x20 == 0 and name not in _KNOWN_CRITICAL:
            raise ValueError(f"a PNG with the chunk {_shown(name)}, which is needed to decode it, but not known")
        yield name, position, data_end + 4
        position = data_end + 4


def _shown(name: bytes) -> str:
    return name.decode("ascii", "backslashreplace")


def _may_orient(name: bytes, data: bytes) -> bool:
    """Return whether a text may hold the orientation, and is short even when decompressed."""
    keyword, _, rest = data.partition(b"\0")
    if keyword not in _ORIENTATIONS or len(data) > _MOST_TEXT:
        return False
    if name == b"zTXt":
        compressed = rest[1:]
    elif name == b"iTXt" and rest.startswith(b"\1"):
        compressed = rest[2:].split(b"\0", 2)[-1]
    else:
        return True
    decompressor = zlib.decompressobj()
    with suppress(zlib.error):
        decompressor.decompress(compressed, _MOST_TEXT)
    return not decompressor.unconsumed_tail
