"""Which endings of file names are those of pictures that can be decoded here."""

from functools import cache
from importlib.util import find_spec

DECODED = frozenset(
    {
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp"),
        *(".ppm", ".pgm", ".tif", ".tiff", ".tga"),
    }
)
_HEIF = "pip install 'accel_train[heic]' reads them"
_WITH_DECODER = {
    ".avif": "Pillow 11.3 or newer reads them",
    ".jp2": "Pillow with OpenJPEG reads them",
    ".heic": _HEIF,
    ".heif": _HEIF,
}
"""How to read pictures whose decoder may be missing."""


def ending_of(name: str) -> str:
    """Return the ending of a file name, in small letters and with its dot; empty if there is none."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def is_picture(name: str) -> bool:
    """Return whether a file of this name is decoded."""
    ending = ending_of(name)
    return ending in DECODED or (ending in _WITH_DECODER and _has_decoder(ending))


def missing_decoder(ending: str) -> str | None:
    """Return how to read the pictures with an ending, if it is that of pictures."""
    return _WITH_DECODER.get(ending)


@cache
def _has_decoder(ending: str) -> bool:
    if ending == ".jp2":
        from PIL import features

        return bool(features.check_codec("jpg_2000"))
    return find_spec("PIL._avif" if ending == ".avif" else "pillow_heif") is not None
