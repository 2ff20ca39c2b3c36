"""Windows have the pixels that Pillow decodes; JPEGs are decoded at a fraction of their size if that is enough."""

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from accel_train.data.images import decode as decoding
from accel_train.data.images.crops import Box
from accel_train.data.images.decode import decode_window


def photograph(height: int, width: int) -> Image.Image:
    """Make a smooth picture in which no two places are equal."""
    down, right = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    return Image.fromarray((np.stack([down, right, np.sin(9 * down * right) ** 2], axis=2) * 255).astype(np.uint8))


def saved(picture: Image.Image, kind: str = "jpeg", **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def by_pillow(file: bytes) -> NDArray[np.uint8]:
    return np.array(ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB"))


def whole(height: int, width: int) -> Box:
    return 0, 0, height, width


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_jpeg_has_the_pixels_that_pillow_decodes(mode: str, options: dict[str, object]) -> None:
    file = saved(photograph(75, 100).convert(mode), **options)
    assert np.array_equal(decode_window(file, whole, 75), by_pillow(file))


def test_ordinary_jpeg_is_decoded_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "decode_with_pillow", None)
    decode_window(saved(photograph(8, 8), exif=turned(6)), whole, 8)
    decode_window(saved(photograph(8, 8).convert("L")), whole, 8)


@pytest.mark.parametrize("kind", ["jpeg", "png"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_box_is_cut_from_the_upright_picture(orientation: int, kind: str) -> None:
    file = saved(photograph(75, 100), kind, exif=turned(orientation))
    assert np.array_equal(decode_window(file, lambda height, width: (5, 20, 30, 40), 30), by_pillow(file)[5:35, 20:60])


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize(
    ("enough", "shape"), [(101, (200, 240, 3)), (100, (100, 120, 3)), (50, (50, 60, 3)), (3, (25, 30, 3))]
)
def test_large_box_is_decoded_at_the_smallest_fraction_that_is_enough(
    enough: int, shape: tuple[int, ...], orientation: int
) -> None:
    file = saved(photograph(400, 600), quality=95, exif=turned(orientation))
    box = (96, 160, 200, 240)
    window = decode_window(file, lambda height, width: box, enough)
    assert window.shape == shape
    top, left, rows, columns = box
    same_window = Image.fromarray(by_pillow(file)[top : top + rows, left : left + columns])
    expected = np.array(same_window.resize(shape[1::-1], Image.Resampling.BOX), np.int64)
    assert np.abs(window - expected).mean() < 1  # of 255; shifted by a pixel it is more than 2


@pytest.mark.parametrize(
    ("size", "shapes"),
    [((399, 601), [(101, 167, 3), (50, 84, 3)]), ((401, 599), [(101, 167, 3), (51, 83, 3)])],  # × 200/399, × 301/601 …
)
def test_box_at_the_edge_of_an_odd_size_is_not_cut_short(size: tuple[int, int], shapes: list[tuple[int, ...]]) -> None:
    file = saved(photograph(*size))
    box = (size[0] - 201, size[1] - 333, 201, 333)
    assert [decode_window(file, lambda *_: box, 201 // f).shape for f in (2, 4)] == shapes


@pytest.mark.parametrize("missing", [2, 10, 500])
def test_truncated_jpeg_is_an_error(missing: int) -> None:
    with pytest.raises(ValueError, match="Premature end of JPEG file"):
        decode_window(saved(photograph(75, 100))[:-missing], whole, 75)


@pytest.mark.parametrize("file", [b"no picture", b"\xff\xd8\xff"])
def test_other_file_is_not_a_picture(file: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a picture of a known format$"):
        decode_window(file, whole, 1)


def test_empty_file_is_named_so() -> None:
    with pytest.raises(ValueError, match=r"^the file is empty$"):
        decode_window(b"", whole, 1)
