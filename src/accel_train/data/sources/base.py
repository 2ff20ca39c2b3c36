"""Sources, which read a batch of image ids at once into uint8, and the data set that two of them make.

Shape suffixes: B images, C channels, H height, W width.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from accel_train.errors import UserError
from accel_train.rng import seed_libraries

Ids = Sequence[int] | NDArray[np.int64]
"""Of images, or keys of theirs; for a batch in memory, lists would cost more than the rest."""


def as_list(ids: Ids) -> list[int]:
    """Return plain numbers, for those who take one at a time."""
    numbers: list[int] = np.asarray(ids).tolist()
    return numbers


class Source(Protocol):
    """One split of a data set.

    A source may hold images of one size in memory, or read pictures at the size that it was told.
    """

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def in_memory(self) -> bool:
        """Whether a batch costs next to nothing to read, and is the same whenever it is read."""
        ...

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image; of a typical one where they differ."""
        ...

    def read(self, ids: Ids, keys: Ids | None) -> tuple[Tensor, Tensor]:
        """Return images_BCHW, uint8 (or float, if the user's own data set makes such), and labels_B, int64.

        `keys` holds a random key for each image in training; it is None in evaluation, and of what lies in memory.
        """
        ...

    def at(self, size: int, random_crop: bool) -> Self:
        """Return this source reading pictures at a height and width of `size` pixels, if it can choose."""
        ...

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        """Return this source with its tensors where `move` brings them, if it holds its images in memory."""
        ...


@dataclass(frozen=True)
class MemorySource:
    """Images of one size, held as one tensor; a batch is an index_select."""

    classes: tuple[str, ...]
    images_NCHW: Tensor
    labels_N: Tensor

    @property
    def in_memory(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.labels_N)

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.images_NCHW.shape[1:]
        return channels, height, width

    def read(self, ids: Ids, keys: Ids | None) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(np.asarray(ids)).to(self.labels_N.device, non_blocking=True)
        return self.images_NCHW.index_select(0, rows), self.labels_N.index_select(0, rows)

    def at(self, size: int, random_crop: bool) -> Self:
        return self

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, images_NCHW=move(self.images_NCHW), labels_N=move(self.labels_N))


@dataclass(frozen=True)
class ItemSource:
    """A user's map-style data set of (image, label), one item at a time.

    Its transforms may draw from `random`, numpy and torch: all three are seeded before each item.
    """

    classes: tuple[str, ...]
    items: Any

    @property
    def in_memory(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self.items)

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self._image(0)[0].shape
        return channels, height, width

    def read(self, ids: Ids, keys: Ids | None) -> tuple[Tensor, Tensor]:
        read = []
        for image_id, key in zip(as_list(ids), as_list(ids if keys is None else keys), strict=True):
            seed_libraries(key)
            read.append(self._image(image_id))
        images, labels = zip(*read, strict=True)
        return torch.stack(images), torch.tensor(labels)

    def at(self, size: int, random_crop: bool) -> Self:
        return self

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return self

    def _image(self, image_id: int) -> tuple[Tensor, int]:
        image, label = self.items[image_id]
        if not isinstance(image, Tensor):
            from torchvision.transforms.functional import pil_to_tensor

            image = pil_to_tensor(image)
        return image, int(label)


@dataclass(frozen=True)
class Subset:
    """Some images of another source."""

    source: Source
    ids: NDArray[np.int64]

    @property
    def classes(self) -> tuple[str, ...]:
        return self.source.classes

    @property
    def in_memory(self) -> bool:
        return self.source.in_memory

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.source.shape

    def read(self, ids: Ids, keys: Ids | None) -> tuple[Tensor, Tensor]:
        return self.source.read(self.ids[ids], keys)

    def at(self, size: int, random_crop: bool) -> Self:
        return replace(self, source=self.source.at(size, random_crop))

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, source=self.source.moved(move))


def spread(source: Source, count: int | None) -> Source:
    """Return `count` images of the source, spread evenly over it, or all of them."""
    if count is None or count >= len(source):
        return source
    return Subset(source, np.arange(count) * len(source) // count)


def pixel_statistics(source: Source) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and standard deviation of each channel over up to 4,096 images spread over a source.

    Both are shares of full white; float images are their maker's to normalise and give 0 and 1.
    """
    sample = spread(source, 4096)
    images_BCHW, _ = sample.read(range(len(sample)), None)
    if images_BCHW.is_floating_point():
        channels = images_BCHW.shape[1]
        return (0.0,) * channels, (1.0,) * channels
    pixels = images_BCHW.double() / 255
    std = pixels.std(dim=(0, 2, 3), correction=0).clamp(min=1 / 255)
    return tuple(pixels.mean(dim=(0, 2, 3)).tolist()), tuple(std.tolist())


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    name: str
    directory: Path | None
    val_fraction: float | None
    seed: int

    @property
    def cache(self) -> Path:
        """Where downloads go."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return self.directory or Path(base) / "accel_train"


@dataclass(frozen=True)
class DataSet:
    """Two sources of the same classes, and what is known about them."""

    kind: str
    """Its row in the table of defaults."""
    place: str
    train: Source
    val: Source
    mean: tuple[float, ...]
    """Of each channel, as a share of full white; likewise `std`."""
    std: tuple[float, ...]
    ignored_files: int = 0


@contextmanager
def one_process_at_a_time(root: Path) -> Iterator[None]:
    """Hold a lock of this machine's processes on a folder; where nothing can be written, nothing need be locked."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {root}: {error.strerror}", "give another --data-dir") from None
    if not os.access(root, os.W_OK):
        yield
        return
    with FileLock(root / ".accel_train.lock"):
        yield


def in_memory(kind: str, place: str, train: MemorySource, val: MemorySource) -> DataSet:
    return DataSet(kind, place, train, val, *pixel_statistics(train))
