"""The orientation is found anywhere in a JPEG's metadata, and never guessed."""

import io

import pytest
from PIL import Image

from accel_train.data.images.exif import read_orientation

XMP = "http://ns.adobe.com/xap/1.0/\0<rdf:Description tiff:Orientation{}/>"


def jpeg(*segments: bytes) -> bytes:
    """Make a JPEG with these APP1 segments first."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "jpeg")
    written = (b"\xff\xe1" + (len(segment) + 2).to_bytes(2) + segment for segment in segments)
    return file.getvalue()[:2] + b"".join(written) + file.getvalue()[2:]


def exif(orientation: int, order: str = "<") -> bytes:
    tags = Image.Exif()
    tags.endian = order
    tags[0x010F] = "a maker"
    tags[0x0112] = orientation
    return tags.tobytes()


@pytest.mark.parametrize("order", ["<", ">"])
def test_exif_is_read_in_both_byte_orders(order: str) -> None:
    assert [read_orientation(jpeg(exif(value, order))) for value in range(1, 9)] == list(range(1, 9))


@pytest.mark.parametrize("form", ['="6"', ">6<"])
def test_xmp_is_used_if_exif_has_no_orientation(form: str) -> None:
    xmp = XMP.format(form).encode()
    assert read_orientation(jpeg(xmp)) == 6
    assert read_orientation(jpeg(Image.Exif().tobytes(), xmp)) == 6
    assert read_orientation(jpeg(xmp, exif(3))) == 3


def test_other_segments_and_fill_bytes_are_skipped() -> None:
    whole = jpeg(b"something else", exif(8))
    assert read_orientation(whole[:2] + b"\xff\xfe\x00\x04ab\xff\xff" + whole[2:]) == 8


def test_metadata_after_the_header_are_ignored() -> None:
    segment = jpeg(exif(6))[2:][:100]
    assert read_orientation(jpeg() + segment) == 1


def test_invalid_metadata_mean_upright() -> None:
    whole = exif(6)
    cut = [whole[:length] for length in range(len(whole) - 6)]
    assert {read_orientation(jpeg(part)) for part in cut} <= {1, 6}
    assert read_orientation(jpeg(whole[:20])) == 1
    assert [read_orientation(jpeg(exif(value))) for value in (0, 9, 77)] == [1, 1, 1]
    assert [read_orientation(part) for part in (b"", b"\xff\xd8", b"\xff\xd8\xff\xe1\xff\xff")] == [1, 1, 1]
