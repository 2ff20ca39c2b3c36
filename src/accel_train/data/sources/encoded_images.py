"""Encoded images in the rows of a table of the library `datasets` as a source: each is decoded when read.

Shape suffixes: B images of a batch, C channels, H height, W width.
"""

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_train.data.images.crops import typical_side
from accel_train.data.images.decode import decode_window
from accel_train.data.images.pillow import stored_size
from accel_train.data.images.view import View
from accel_train.data.sources.base import Ids, as_list, crop_keys
from accel_train.data.sources.split import path_hash
from accel_train.errors import LocalError, UserError
from accel_train.system.regular_files import read_regular


@dataclass(frozen=True)
class TableSource:
    """Images in the rows of a table; a label is the index in `classes`."""

    name: str
    """Of the data set and the split."""
    classes: tuple[str, ...]
    images: Any
    """The rows of one column, undecoded: each a dict of bytes and path."""
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    sizes_of_rows: NDArray[np.int64]
    """Bytes of each encoded image of the table."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Estimate a size from the headers of some images."""
        side = typical_side(len(self), self._shorter_side)
        return 3, side, side

    @property
    def counts(self) -> NDArray[np.int64]:
        """Images of each class."""
        return np.bincount(self.labels, minlength=len(self.classes))

    @property
    def fingerprint(self) -> str:
        """Hash of the rows, their labels and the sizes of their images."""
        parts = (self.rows, self.labels, self.sizes_of_rows[self.rows])
        return hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()

    @property
    def path_hashes(self) -> NDArray[np.int64]:
        """Hash of the number of each row, by which rows are split."""
        return np.fromiter((path_hash(str(row)) for row in self.rows), np.int64, len(self))

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, ids: NDArray[np.int64]) -> Self:
        """Return the source of some of the images."""
        return replace(self, rows=self.rows[ids], labels=self.labels[ids])

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        shape = (len(ids), 3, view.size, view.size)
        images_BCHW = torch.empty(shape, dtype=torch.uint8, memory_format=torch.channels_last)
        files = self._files(ids)
        for position, (file, key) in enumerate(zip(files, crop_keys(ids, keys, view), strict=True)):
            try:
                window = decode_window(_bytes(file), partial(view.box, key=key), view.size, view.most_pixels)
            except Exception as error:  # damaged bytes make decoders raise any type
                raise LocalError(*self._unreadable(as_list(ids)[position], error)) from None
            window_1CHW = torch.from_numpy(window)[None].permute(0, 3, 1, 2)
            images_BCHW[position] = view.resized(window_1CHW, key)[0]
        return images_BCHW, torch.from_numpy(self.labels[np.asarray(ids)])

    def place(self, image_id: int) -> str:
        """Return where an image is."""
        return f"row {self.rows[image_id]} of {self.name}"

    def encoded(self, image_id: int) -> bytes:
        """Return the bytes of an encoded image.

        Raises:
            OSError: it is in a file that cannot be read.
        """
        return _bytes(self._files([image_id])[0])

    def _files(self, ids: Ids) -> Sequence[Mapping[str, Any] | None]:
        (column,) = self.images.column_names
        files: Sequence[Mapping[str, Any] | None] = self.images[self.rows[np.asarray(ids)].tolist()][column]
        return files

    def _shorter_side(self, image_id: int) -> int:
        try:
            return min(stored_size(io.BytesIO(self.encoded(image_id))))
        except Exception as error:  # Pillow's plugins raise any type
            raise UserError(*self._unreadable(image_id, error)) from None  # every process looks at this picture

    def _unreadable(self, image_id: int, error: Exception) -> tuple[str, str]:
        return f"cannot read the image in {self.place(image_id)}: {error}", "repair it or remove it"


def _bytes(file: Mapping[str, Any] | None) -> bytes:
    """Return the bytes of an image in the table, or in a file that it names.

    Raises:
        ValueError: there is no image.
        OSError: its file cannot be read.
    """
    if file is None or (file["bytes"] is None and file["path"] is None):
        raise ValueError("the row has no image")
    if file["bytes"] is not None:
        stored: bytes = file["bytes"]
        return stored
    return read_regular(Path(file["path"]), float("inf"))


def sizes_of(images: Any) -> NDArray[np.int64]:
    """Return the bytes of each encoded image of a column, without reading them; 0 of one that is missing."""
    from pyarrow import compute

    (column,) = images.column_names
    table = images.data.column(column)
    sizes: NDArray[np.int64] = (
        compute.binary_length(compute.struct_field(table, "bytes")).fill_null(-1).to_numpy().astype(np.int64)
    )
    if (sizes < 0).any():
        paths = compute.struct_field(table, "path").to_pylist()
        for row in np.flatnonzero(sizes < 0).tolist():
            sizes[row] = 0
            with suppress(OSError, TypeError):
                sizes[row] = os.path.getsize(paths[row])  # noqa: PTH202 - of each picture
    return sizes
