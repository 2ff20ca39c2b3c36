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
from torch import Tensor

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.images.crops import Box, typical_side
from accel_train.data.images.decode import decode_window
from accel_train.data.images.pillow import stored_size
from accel_train.data.images.view import View
from accel_train.data.sources.base import Ids, as_list, crop_keys
from accel_train.data.sources.names import normalized
from accel_train.data.sources.split import path_hash
from accel_train.errors import LocalError, UserError


@dataclass(frozen=True)
class FolderSource:
    """Picture files; a label is the index in `classes` of the name of the top folder, or what a file of labels says."""

    classes: tuple[str, ...]
    root: Path
    paths: tuple[str, ...]
    """Relative to `root`."""
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """Of the files, bytes."""
    labels_in_paths: bool = True
    """Whether the first part of each path is its class."""

    def labelled_paths(self) -> tuple[str, ...]:
        """The path of each picture, after its class: a picture whose label has changed is another one."""
        if self.labels_in_paths:
            return self.paths
        return tuple(f"{self.classes[label]}/{path}" for label, path in zip(self.labels, self.paths, strict=True))

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
        """Hash of the paths, labels and sizes."""
        digest = hashlib.sha256(normalized("\0".join(self.labelled_paths())).encode("utf-8", "surrogateescape"))
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
            images_BCHW[position] = self._picture(image_id, key, view)
        return images_BCHW, torch.from_numpy(self.labels[np.asarray(ids)])

    def encoded(self, image_id: int) -> bytes:
        """Return the bytes of a file.

        Raises:
            OSError: it cannot be read.
        """
        with open(self.path(image_id), "rb", opener=open_at_once) as file:
            return file.read()

    def _shorter_side(self, image_id: int) -> int:
        path = self.path(image_id)
        try:
            with open(path, "rb", opener=open_at_once) as file:
                return min(stored_size(file))
        except Exception as error:  # Pillow's plugins raise any type
            raise UserError(*_unreadable(path, error)) from None  # every process looks at this picture

    def path(self, image_id: int) -> str:
        """Return the path of a file."""
        return f"{self.root}/{self.paths[image_id]}"

    def _picture(self, image_id: int, key: int | None, view: View) -> Tensor:
        box = partial(view.box, key=key)
        window_HWC = torch.from_numpy(read_window(self.path(image_id), box, view.size, view.most_pixels))
        window_1CHW = window_HWC[None].permute(0, 3, 1, 2)  # these strides make torch keep it channels last
        return view.resized(window_1CHW, key)[0]


def read_window(
    path: str, choose_box: Callable[[int, int], Box], enough: int, most_pixels: int = MOST_PIXELS
) -> NDArray[np.uint8]:
    """Return the pixels_HWC of a box of the picture in a file, see :func:`decode_window`.

    Raises:
        LocalError: the picture cannot be read.
    """
    try:
        # making a Path takes longer than opening the file
        with open(path, "rb", opener=open_at_once) as file:
            return decode_window(file.read(), choose_box, enough, most_pixels)
    except Exception as error:  # damaged bytes make decoders raise any type
        raise LocalError(*_unreadable(path, error)) from None


def open_at_once(path: str, flags: int) -> int:
    """Open a file that does not block, even if it has become a FIFO since it was listed."""
    return os.open(path, flags | os.O_NONBLOCK)


def _unreadable(path: str, error: Exception) -> tuple[str, str]:
    hint = "repair or remove it; `accel_train check` lists all that cannot be read"
    return f"cannot read the picture {path}: {error}", hint
