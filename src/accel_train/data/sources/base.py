"""The source protocol, and the data set that a training and a validation source make.

Shape suffixes: B images, C channels, H height, W width.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_train.data.images.view import View as View  # noqa: PLC0414 - exports it
from accel_train.data.sources.checks import wrong_images
from accel_train.errors import LocalError, UserError
from accel_train.loggers.text import quantity
from accel_train.models.base import Interpolation

LABELS_HINT = "a label is the index of its class in `classes`"
Ids = Sequence[int] | NDArray[np.int64]
"""Image ids, or random keys; loaders pass arrays, because converting to lists costs more than an in-memory read."""


def as_list(ids: Ids) -> list[int]:
    """Return ids as Python integers, for code that takes one image at a time."""
    numbers: list[int] = np.asarray(ids).tolist()
    return numbers


class Source(Protocol):
    """One split of a data set."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image; of a typical image if sizes differ."""
        ...

    def __len__(self) -> int: ...

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        """Return images_BCHW, uint8 or already normalised floats, and labels_B, int64.

        `keys` holds one random key per image in training; it is None in evaluation and for in-memory sources.
        """
        ...

    # Optional: `counts`, the images of each class, and `fingerprint`, which differs if the images differ. A run stores
    # both, and refuses to resume on other data.


def crop_keys(ids: Ids, keys: Ids | None, view: View) -> Sequence[int | None]:
    """Return the key of each image's random crop, None for a central crop."""
    return as_list(keys) if view.random_crop and keys is not None else [None] * len(ids)


@dataclass(frozen=True)
class Subset:
    """Some images of another source."""

    source: Source
    ids: NDArray[np.int64]

    @property
    def classes(self) -> tuple[str, ...]:
        return self.source.classes

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.source.shape

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        return self.source.read(self.ids[ids], keys, view)


def spread(source: Source, count: int | None) -> Source:
    """Return `count` images spread evenly over the source; all of them if `count` is None or too large."""
    if count is None or count >= len(source):
        return source
    return Subset(source, _spread_ids(source, count))


def _spread_ids(source: Source, count: int) -> NDArray[np.int64]:
    return np.arange(count) * len(source) // count


def label_problem(labels_B: Tensor, ids: Ids, classes: int) -> str | None:
    """Return what is wrong with the labels of these images, or None."""
    if not isinstance(labels_B, Tensor):
        return f"the labels of {quantity(len(ids), 'image')} are a {type(labels_B).__name__}, not a tensor of int64"
    if labels_B.shape != (len(ids),) or labels_B.dtype != torch.int64:
        shape = tuple(labels_B.shape)
        return f"the labels of {quantity(len(ids), 'image')} are {labels_B.dtype} of shape {shape}, not int64"
    wrong_B = (labels_B < 0) | (labels_B >= classes)
    if not wrong_B.any():
        return None
    first = int(wrong_B.nonzero()[0])
    return f"image {as_list(ids)[first]} has the label {int(labels_B[first])}, but labels go from 0 to {classes - 1}"


def read_batch(source: Source, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
    """Read images_BCHW and labels_B of a source that may be a user's, and check them.

    Raises:
        LocalError: they are not what a source must return.
    """
    read = source.read(ids, keys, view)
    pair = tuple(read) if isinstance(read, tuple | list) else ()
    if len(pair) != 2:
        what = f"{len(pair)} values" if pair else f"a {type(read).__name__}"
        raise LocalError(f"`read` returned {what}", "return the images and the labels of the ids")
    images_BCHW, labels_B = pair
    if wrong := wrong_images(images_BCHW, "B × C × H × W"):
        raise LocalError(f"the images of `read` are {wrong[0]}", wrong[1])
    if images_BCHW.shape[:2] != (len(ids), source.shape[0]):
        found, shape = " × ".join(map(str, images_BCHW.shape)), " × ".join(map(str, source.shape))
        raise LocalError(
            f"`read` returned images of {found} for {quantity(len(ids), 'id')} of images of {shape}",
            "return one image for each id, and its number of channels in `shape`",
        )
    if problem := label_problem(labels_B, ids, len(source.classes)):
        raise LocalError(problem, LABELS_HINT)
    return images_BCHW, labels_B


def pixel_statistics(source: Source) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and standard deviation of each channel, as fractions of full white.

    Computed over up to 4,096 images spread over the source. Float images count as normalised already: 0 and 1.

    Raises:
        UserError: a label is not the index of a class.
    """
    ids = _spread_ids(source, min(len(source), 4096))
    view = View(size=max(source.shape[1:]), random_crop=False)
    images_BCHW = read_batch(source, ids, None, view)[0]
    if images_BCHW.is_floating_point():
        channels = images_BCHW.shape[1]
        return (0.0,) * channels, (1.0,) * channels
    pixels = images_BCHW.double() / 255
    std = pixels.std(dim=(0, 2, 3), correction=0).clamp(min=1 / 255)
    return tuple(pixels.mean(dim=(0, 2, 3)).tolist()), tuple(std.tolist())


@dataclass(frozen=True)
class LabelsFrom:
    """Where the labels of images come from, if not from the names of their folders or the data set itself."""

    file: Path | None = None
    """A CSV or Parquet file."""
    column: str | None = None
    """Its column, or that of a table; None for the usual name."""


@dataclass(frozen=True)
class Request:
    """The options that select a data set."""

    name: str
    directory: Path | None
    val_fraction: float | None
    seed: int
    labels: LabelsFrom = LabelsFrom()
    with_test: bool = False
    """Open the test split too, if there is one."""
    download: bool = True
    """False if `directory` comes from a file that may not decide where something is written."""

    @property
    def download_folder(self) -> Path:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return self.directory or Path(base) / "accel_train"


Source_co = TypeVar("Source_co", bound=Source, covariant=True)


@dataclass(frozen=True)
class Listing(Generic[Source_co]):
    """The pictures of a folder, and what is ignored in it."""

    splits: Mapping[str, Source_co]
    """train, val and perhaps test; or all. In evaluation val, test or all."""
    ignored_files: int = 0
    """Files that are not pictures."""
    notes: tuple[str, ...] = ()
    """What else the user should know of the layout, one sentence each."""


@dataclass(frozen=True)
class DataSet:
    """A training and a validation source with the same classes."""

    kind: str
    """Key in the table of defaults by data set."""
    origin: str
    """Where the images come from, to print after the name."""
    train: Source
    val: Source
    mean: tuple[float, ...]
    """By channel, as a fraction of full white; likewise `std`."""
    std: tuple[float, ...]
    ignored_files: int = 0
    notes: tuple[str, ...] = ()
    """What the user should know of how the images are stored, one sentence each."""
    interpolation: Interpolation = "bilinear"
    """How images are resized."""
    test: Source | None = None
    """None if there is none, or if it was not asked for."""


@contextmanager
def download_lock(folder: Path) -> Iterator[None]:
    """Let one process of a machine at a time download to a folder; a read-only folder needs no lock."""
    from filelock import FileLock  # takes 5 ms, and is for downloads only

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror}", "give another --data-dir") from None
    if not os.access(folder, os.W_OK):
        yield
        return
    with FileLock(folder / ".accel_train.lock"):
        yield
