"""A user's own data, from a function named as my.module:function.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from accel_train.config.import_string import MEND, call_function
from accel_train.data.sources.base import (
    LABELS_HINT,
    DataSet,
    Ids,
    Request,
    Source,
    View,
    as_list,
    download_lock,
    pixel_statistics,
    read_batch,
)
from accel_train.data.sources.checks import check_length, check_shape, class_names, other_classes, wrong_images
from accel_train.data.sources.memory import MemorySource, check_memory
from accel_train.data.sources.torch_subset import fingerprint_of, labels_of_items, owner_of, selected
from accel_train.errors import LocalError, UserError, shown
from accel_train.loggers.text import quantity
from accel_train.rng import seed_libraries

if TYPE_CHECKING:
    from PIL import Image

T = TypeVar("T")
_SPLITS = ("training data", "validation data", "test data")


@dataclass(frozen=True)
class ItemSource:
    """A map-style data set of (image, label), read one item at a time.

    Its transforms may draw from `random`, numpy and torch: all three are seeded before each item.
    """

    classes: tuple[str, ...]
    items: Any
    name: str = ""
    """What it is, for messages."""

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self._first.shape
        return channels, height, width

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        """Asked for once: a data set that grows keeps its order."""
        return len(self.items)

    @cached_property
    def _first(self) -> Tensor:
        """Image 0; all others have its shape and type."""
        return self._item(0)[0]

    @property
    def counts(self) -> Any:
        """As the items tell."""
        return getattr(self.items, "counts", None)

    @property
    def labels(self) -> Any:
        """As the items tell."""
        return labels_of_items(self.items)

    @property
    def fingerprint(self) -> Any:
        """As the items tell."""
        return fingerprint_of(self.items)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        items = []
        for image_id, key in zip(as_list(ids), as_list(ids if keys is None else keys), strict=True):
            seed_libraries(key)
            items.append(self._item(image_id))
        images, labels = zip(*items, strict=True)
        for image_id, image in zip(as_list(ids), images, strict=True):
            if image.shape != self._first.shape or image.dtype != self._first.dtype:
                was, found = (f"{each.dtype} of {' × '.join(map(str, each.shape))}" for each in (self._first, image))
                raise self._error(f"image {image_id} is {found}, image 0 is {was}", "give all one shape and one type")
        return torch.stack(images), torch.tensor(labels)

    def _item(self, image_id: int) -> tuple[Tensor, int]:
        try:
            image, label = self.items[image_id]
        except UserError:
            raise
        except Exception as error:
            raise self._error(f"image {image_id}: {type(error).__name__}: {error}", MEND) from error
        if not isinstance(image, Tensor):
            image = self._pixels(image, image_id)
        if wrong := wrong_images(image, "C × H × W"):
            raise self._error(f"image {image_id} is {wrong[0]}", wrong[1])
        with suppress(TypeError, ValueError, RuntimeError):
            if int(label) == label:
                return image, self._checked(int(label), image_id)
        raise self._error(f"image {image_id} has the label {shown(label)}, which is no whole number", LABELS_HINT)

    def _pixels(self, image: Any, image_id: int) -> Tensor:
        """Return a PIL image as a tensor; palettes and other sample formats than bytes become bytes, as in files."""
        from PIL import Image
        from torchvision.transforms.functional import pil_to_tensor

        if not isinstance(image, Image.Image):
            hint = "return a PIL image, or a tensor of C × H × W, such as torch.from_numpy(array).permute(2, 0, 1)"
            raise self._error(f"image {image_id} is a {type(image).__name__}", hint)
        try:
            pixels_CHW: Tensor = pil_to_tensor(_in_bytes(image))
        except Exception as error:  # its file is read now: Pillow's plugins raise any type
            raise self._error(f"image {image_id}: {error}", "repair or convert it") from error
        return pixels_CHW

    def _checked(self, label: int, image_id: int) -> int:
        if 0 <= label < len(self.classes):
            return label
        raise self._error(
            f"image {image_id} has the label {label}, but labels go from 0 to {len(self.classes) - 1}", LABELS_HINT
        )

    def _error(self, message: str, hint: str) -> LocalError:
        return LocalError(f"{self.name}: {message}" if self.name else message, hint)


def _in_bytes(image: "Image.Image") -> "Image.Image":
    """Return a PIL image with 8 bits per sample, in colours instead of palette indices."""
    if image.mode == "1":
        return image.convert("L")
    has_palette = image.mode in ("P", "PA")
    if not (has_palette or image.mode == "F" or image.mode.startswith("I")):
        return image
    from accel_train.data.images.samples import as_rgb

    return as_rgb(image) if has_palette else as_rgb(image).convert("L")


def open_function(request: Request) -> DataSet:
    """Call the user's function for its training and validation data, and test data if it has them.

    Raises:
        UserError: it cannot be imported, or returns something else.
    """
    with download_lock(request.download_folder) if request.download else nullcontext():  # the function may download
        returned = call_function(request.name, "--data", data_dir=request.directory, seed=request.seed)
    if not isinstance(returned, tuple | list) or len(returned) not in (2, 3):
        found = f"a {type(returned).__name__}"
        if isinstance(returned, tuple | list):
            found += f" of {len(returned)}"
        raise UserError(
            f"--data {request.name} did not return a pair, but {found}", "return (training data, validation data)"
        )
    named = zip(returned, _SPLITS, strict=False)
    train, *others = (_as_source(data, f"--data {request.name}: {split}") for data, split in named)
    mean, std = _named(f"--data {request.name}: {_SPLITS[0]}", partial(pixel_statistics, train))
    for split, source in zip(_SPLITS[1:], others, strict=False):
        _check_alike(train, source, f"--data {request.name}", split)
    test = others[1] if len(others) > 1 else None
    return DataSet("module", f"from {request.name}", train, others[0], mean, std, test=test)


def _named(name: str, function: Callable[[], T]) -> T:
    """Call a function whose errors tell the image, and name the split in them."""
    try:
        return function()
    except UserError as error:
        if error.message.startswith("--data"):
            raise
        raise type(error)(f"{name}: {error.message}", error.hint) from error


def _check_alike(train: Source, other: Source, option: str, split: str) -> None:
    """Check that another split has the classes of the training data, and images of their kind.

    Raises:
        UserError: it has not.
    """
    if tuple(train.classes) != tuple(other.classes):
        differ = other_classes(tuple(train.classes), tuple(other.classes))
        raise UserError(
            f"{option}: training and {split} have different classes: {differ}", "give both the same `classes`"
        )
    kinds = []
    for source, name in ((train, _SPLITS[0]), (other, split)):
        view = View(size=max(source.shape[1:]), random_crop=False)
        image_CHW = _named(f"{option}: {name}", partial(read_batch, source, [0], None, view))[0][0]
        kinds.append(f"{image_CHW.dtype} of {quantity(len(image_CHW), 'channel')}")
    if kinds[0] != kinds[1]:
        raise UserError(
            f"{option}: the training images are {kinds[0]}, the {split} {kinds[1]}",
            "give all images one number of channels and one type",
        )


def _as_source(data: Any, name: str) -> Source:
    """Return a user's source, and a map-style data set as an ItemSource.

    Raises:
        UserError: it is neither, has no images, or its classes or labels cannot be right.
    """
    owner = owner_of(data, "classes")
    if owner is None or not hasattr(data, "__len__"):
        raise UserError(
            f"{name} is a {type(data).__name__} without classes or without length",
            "add `classes`, the class names, and `__len__`",
        )
    check_length(data, name)
    classes = class_names(owner.classes, name)
    data = selected(data, name)
    if isinstance(data, MemorySource):
        check_memory(data, name)
        return replace(data, classes=classes)
    if hasattr(data, "shape") and callable(getattr(data, "read", None)):
        check_shape(data.shape, name)
        source: Source = data
        return source
    if not hasattr(data, "__getitem__") or isinstance(data, IterableDataset):
        raise UserError(
            f"{name} is a {type(data).__name__} that cannot be read", "add `__getitem__`, or `read` and `shape`"
        )
    return ItemSource(classes, data, name)
