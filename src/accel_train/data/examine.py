"""Examines the images of a source, in parallel: can they be read, their size and colours, and what they look like.

Shape suffixes: H height, W width, C channels.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from accel_train.data.images.crops import Box
from accel_train.data.images.decode import decode_window
from accel_train.data.images.view import View
from accel_train.data.packing.source import PackedSource
from accel_train.data.sources.base import Source, Subset
from accel_train.data.sources.encoded_images import TableSource
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.picture_files import FolderSource
from accel_train.data.sources.user import ItemSource
from accel_train.errors import UserError
from accel_train.system.worker_signals import serve_parent

_IMAGES_PER_REPORT = 16
_IMAGES_PER_WORKER = 64
"""Fewer take less time than starting a worker."""
_ENOUGH = 64
"""Pixels of the shorter side of a JPEG that is decoded at a fraction of its size; its data are read all the same."""

_LEAST_SIDE = 32
"""Pixels of an image that has a perceptual hash: it is that of the image at 32 × 32 pixels."""


@dataclass(frozen=True)
class Examined:
    """What is found of one image."""

    digest: bytes = b""
    """Hash of its file, or of its pixels if it has none; empty if it cannot be read."""
    likeness: int | None = None
    """Perceptual hash of 64 bits; None without the library, or if the image is too small or has a single colour."""
    height: int = 0
    """0 if its source does not tell; likewise `width`."""
    width: int = 0
    mean: tuple[float, ...] = ()
    """Of each channel, as a fraction of full white; empty for images that are not uint8."""
    square: tuple[float, ...] = ()
    """Mean of the squares."""
    problem: str = ""
    """Why the image cannot be read."""


def can_compare_likeness() -> bool:
    """Return whether the library of perceptual hashes is installed."""
    return find_spec("imagehash") is not None


def examine(source: Source, most_pixels: int, workers: int) -> Iterator[list[Examined]]:
    """Yield what is found of each image of a source, in order, some at a time."""
    images = _Examiner(source, most_pixels)
    yield from DataLoader(
        images,
        batch_size=None,
        num_workers=min(workers, len(source) // _IMAGES_PER_WORKER, len(images)),
        worker_init_fn=serve_parent,
    )


class _Examiner(Dataset[list[Examined]]):
    def __init__(self, source: Source, most_pixels: int) -> None:
        self._source = source
        self._most_pixels = most_pixels

    def __len__(self) -> int:
        return math.ceil(len(self._source) / _IMAGES_PER_REPORT)

    def __getitem__(self, part: int) -> list[Examined]:
        first = part * _IMAGES_PER_REPORT
        ids = range(first, min(first + _IMAGES_PER_REPORT, len(self._source)))
        return [_examined(self._source, image_id, self._most_pixels) for image_id in ids]


def _examined(source: Source, image_id: int, most_pixels: int) -> Examined:
    if isinstance(source, Subset):
        return _examined(source.source, int(source.ids[image_id]), most_pixels)
    height = width = 0

    def whole(rows: int, columns: int) -> Box:
        nonlocal height, width
        height, width = rows, columns
        return 0, 0, rows, columns

    try:
        if isinstance(source, FolderSource | TableSource):
            content = source.encoded(image_id)
            pixels_HWC: NDArray[Any] = decode_window(content, whole, _ENOUGH, most_pixels)
        else:
            pixels_HWC = _pixels(source, image_id)
            content = pixels_HWC.tobytes()
            if isinstance(source, MemorySource | PackedSource | ItemSource):  # others may follow the view
                whole(*pixels_HWC.shape[:2])
    except Exception as error:  # decoders and users' sources raise any type
        return Examined(problem=error.message if isinstance(error, UserError) else str(error))
    digest = xxhash.xxh3_128_digest(content)
    if pixels_HWC.dtype != np.uint8:
        return Examined(digest, height=height, width=width)
    shares_NC = pixels_HWC.reshape(-1, pixels_HWC.shape[2]) / 255
    mean, square = (tuple(values.mean(0).tolist()) for values in (shares_NC, shares_NC**2))
    return Examined(digest, _likeness(pixels_HWC), height, width, mean, square)


def _pixels(source: Source, image_id: int) -> NDArray[Any]:
    """Return the pixels of an image that is not encoded, whole if its source tells them."""
    if isinstance(source, PackedSource):
        stored_HWC: NDArray[np.uint8] = source.pixels(image_id).numpy()
        return stored_HWC
    images_BCHW, _ = source.read([image_id], None, View(_ENOUGH, random_crop=False, fit="squash"))
    pixels_HWC: NDArray[Any] = images_BCHW[0].permute(1, 2, 0).cpu().numpy()
    return pixels_HWC


def _likeness(pixels_HWC: NDArray[np.uint8]) -> int | None:
    """Return the perceptual hash (pHash) of an image."""
    small = min(pixels_HWC.shape[:2]) < _LEAST_SIDE
    if not can_compare_likeness() or small or pixels_HWC.shape[2] not in (1, 3):
        return None
    if (pixels_HWC == pixels_HWC[0, 0]).all():
        return None
    import imagehash

    image = Image.fromarray(pixels_HWC if pixels_HWC.shape[2] == 3 else pixels_HWC[:, :, 0])
    return int(str(imagehash.phash(image)), 16)
