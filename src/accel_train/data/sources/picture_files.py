"""Picture files as a source: each is decoded when read.

Shape suffixes: B images of a batch, C channels, H height, W width.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from accel_train.data.images.crops import Box, crop_box, typical_side
from accel_train.data.images.decode import decode_window
from accel_train.data.sources.base import Ids, View, as_list, crop_keys
from accel_train.data.sources.names import normalized
from accel_train.data.sources.split import path_hash
from accel_train.errors import LocalError, UserError


@dataclass(frozen=True)
class FolderSource:
    """Picture files; a label is the index in `classes` of the name of the top folder."""

    classes: tuple[str, ...]
    root: Path
    paths: tuple[str, ...]
    """Relative to `root`; the first part is the class."""
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """Of the files, bytes."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Estimate a size from the headers of some pictures."""
        side = typical_side(len(self), self._shorter_side)
        return 3, side, side

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of pictures of each class."""
        return np.bincount(self.labels, minlength=len(self.classes))

    @property
    def fingerprint(self) -> str:
        """Hash of the paths and sizes."""
        digest = hashlib.sha256(normalized("\0".join(self.paths)).encode("utf-8", "surrogateescape"))
        digest.update(self.sizes.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def path_hashes(self) -> NDArray[np.int64]:
        """Hash of each path, by which pictures are split."""
        return np.fromiter(map(path_hash, self.paths), np.int64, len(self))

    def __len__(self) -> int:
        return len(self.paths)

    def only(self, ids: NDArray[np.int64]) -> Self:
        """Return the source of some of the pictures."""
        paths = tuple(self.paths[i] for i in ids.tolist())
        return replace(self, paths=paths, labels=self.labels[ids], sizes=self.sizes[ids])

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        shape = (len(ids), 3, view.size, view.size)
        images_BCHW = torch.empty(shape, dtype=torch.uint8, memory_format=torch.channels_last)  # as decoders write
        for position, (image_id, key) in enumerate(zip(as_list(ids), crop_keys(ids, keys, view), strict=True)):
            images_BCHW[position] = self._picture(image_id, key, view.size)
        return images_BCHW, torch.from_numpy(self.labels[np.asarray(ids)])

    def _shorter_side(self, image_id: int) -> int:
        path = self._path(image_id)
        try:
            with open(path, "rb", opener=_open_file) as file, Image.open(file) as picture:
                return min(picture.size)
        except Exception as error:  # Pillow's plugins raise any type
            raise UserError(*_unreadable(path, error)) from None  # every process looks at this picture

    def _path(self, image_id: int) -> str:
        return f"{self.root}/{self.paths[image_id]}"

    def _picture(self, image_id: int, key: int | None, size: int) -> Tensor:
        window_HWC = torch.from_numpy(read_window(self._path(image_id), partial(crop_box, key=key), size))
        window_1CHW = window_HWC[None].permute(0, 3, 1, 2)  # these strides make torch keep it channels last
        return functional.interpolate(window_1CHW, size=(size, size), mode="bilinear", antialias=True)[0]


def read_window(path: str, choose_box: Callable[[int, int], Box], enough: int) -> NDArray[np.uint8]:
    """Return the pixels_HWC of a box of the picture in a file, see :func:`decode_window`.

    Raises:
        LocalError: the picture cannot be read.
    """
    try:
        # making a Path takes longer than opening the file
        with open(path, "rb", opener=_open_file) as file:
            return decode_window(file.read(), choose_box, enough)
    except Exception as error:  # damaged bytes make decoders raise any type
        raise LocalError(*_unreadable(path, error)) from None


def _open_file(path: str, flags: int) -> int:
    """Open a file that does not block, even if it has become a FIFO since it was listed."""
    return os.open(path, flags | os.O_NONBLOCK)


def _unreadable(path: str, error: Exception) -> tuple[str, str]:
    return f"cannot read the picture {path}: {error}", "repair it or remove it"
