"""Pictures are stored in the page: small ones exactly, large ones reduced."""

import base64
import io

import numpy as np
from PIL import Image

from accel_train.report.pictures import picture


def opened(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_small_picture_keeps_its_pixels() -> None:
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    found = picture(pixels)
    assert found.is_small
    assert found.uri.startswith("data:image/png;base64,")
    assert np.array_equal(np.asarray(opened(found.uri)), pixels)


def test_large_picture_is_reduced() -> None:
    found = picture(np.full((400, 224, 3), 90, np.uint8))
    assert not found.is_small
    assert found.uri.startswith("data:image/jpeg;base64,")
    assert opened(found.uri).size == (99, 176)
