"""Removes faults of JPEGs that do not change a pixel, but that strict decoding refuses."""

import re

_END = b"\xff\xd9"
_JFIF_VERSION = re.compile(rb"\A(\xff\xd8\xff\xe0..JFIF\0).", re.DOTALL)
_SCAN = re.compile(rb"(\xff\xda\0(?:\x08\x01.{2}|\x0a\x02.{4}|\x0c\x03.{6})).{3}", re.DOTALL)
_WHOLE_SPECTRUM = b"\\g<1>\x00\x3f\x00"
"""Spectral selection and approximation of a scan that is not progressive."""
_PROGRESSIVE = re.compile(rb"\xff[\xc2\xc6\xca\xce]\0")


def without_harmless_faults(jpeg: bytes) -> bytes:
    """Return a JPEG without a padding of zeros before its end, and with the header values that the format prescribes.

    Cameras and old programs write such files; their coded pixels are complete. Decode the result as strictly.
    """
    end = jpeg.rfind(_END)
    if end > 0 and jpeg[end - 1] == 0:
        coded = jpeg[:end].rstrip(b"\0")
        escape = b"\0" * coded.endswith(b"\xff")  # FF 00 is a byte of the coded pixels
        jpeg = coded + escape + jpeg[end:]
    jpeg = _JFIF_VERSION.sub(b"\\g<1>\x01", jpeg)
    return jpeg if _PROGRESSIVE.search(jpeg) else _SCAN.sub(_WHOLE_SPECTRUM, jpeg)
