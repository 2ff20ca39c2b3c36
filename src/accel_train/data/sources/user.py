"""A user's own data, from a function named as my.module:function.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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
)
from accel_train.data.sources.memory import MemorySource, check_memory
from accel_train.errors import LocalError, UserError
from accel_train.rng import seed_libraries

_SPLITS = ("training data", "validation data", "test data")


@dataclass(frozen=True)
class ItemSource:
    """A map-style data set of (image, label), read one item at a time.

    Its transforms may draw from `random`, numpy and torch: all three are seeded before each item.
    """

    classes: tuple[str, ...]
    items: Any

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self._item(0)[0].shape
        return channels, height, width

    def __len__(self) -> int:
        return len(self.items)

    @property
    def counts(self) -> Any:
        """As the items tell."""
        return getattr(self.items, "counts", None)

    @property
    def labels(self) -> Any:
        """As the items tell; data sets of torchvision call them targets, and may change them when they are read."""
        changed = getattr(self.items, "target_transform", None) is not None
        return getattr(self.items, "labels", None if changed else getattr(self.items, "targets", None))

    @property
    def fingerprint(self) -> Any:
        """As the items tell."""
        return getattr(self.items, "fingerprint", None)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        items = []
        for image_id, key in zip(as_list(ids), as_list(ids if keys is None else keys), strict=True):
            seed_libraries(key)
            items.append(self._item(image_id))
        images, labels = zip(*items, strict=True)
        for image_id, image in zip(as_list(ids), images, strict=True):
            if image.shape != images[0].shape or image.dtype != images[0].dtype:
                was, found = (f"{each.dtype} of {' × '.join(map(str, each.shape))}" for each in (images[0], image))
                raise LocalError(
                    f"image {image_id} is {found}, image {ids[0]} is {was}", "give all images one shape and one type"
                )
        return torch.stack(images), torch.tensor(labels)

    def _item(self, image_id: int) -> tuple[Tensor, int]:
        try:
            image, label = self.items[image_id]
        except UserError:
            raise
        except Exception as error:
            raise LocalError(f"image {image_id}: {type(error).__name__}: {error}", MEND) from error
        if not isinstance(image, Tensor):
            from torchvision.transforms.functional import pil_to_tensor

            with suppress(TypeError):  # it is no PIL image
                image = pil_to_tensor(image)
        if not isinstance(image, Tensor) or image.ndim != 3:
            kind = f"a tensor of {tuple(image.shape)}" if isinstance(image, Tensor) else f"a {type(image).__name__}"
            raise LocalError(f"image {image_id} is {kind}", "return a PIL image, or a tensor of C × H × W")
        with suppress(TypeError, ValueError, RuntimeError):
            if int(label) == label:
                return image, int(label)
        raise LocalError(f"image {image_id} has the label {label!r}, which is no whole number", LABELS_HINT)


def open_function(request: Request) -> DataSet:
    """Call the user's function for its training and validation data, and test data if it has them.

    Raises:
        UserError: it cannot be imported, or returns something else.
    """
    with download_lock(request.download_folder) if request.download else nullcontext():  # the function may download
        returned = call_function(request.name, "--data", data_dir=request.directory, seed=request.seed)
    if not isinstance(returned, tuple) or len(returned) not in (2, 3):
        raise UserError(f"--data {request.name} did not return a pair", "return (training data, validation data)")
    named = zip(returned, _SPLITS, strict=False)
    train, *others = (_as_source(data, f"--data {request.name}: {split}") for data, split in named)
    for split, source in zip(_SPLITS[1:], others, strict=False):
        if tuple(train.classes) != tuple(source.classes):
            raise UserError(
                f"--data {request.name}: training and {split} have different classes", "give both the same `classes`"
            )
    test = others[1] if len(others) > 1 else None
    return DataSet("module", f"from {request.name}", train, others[0], *pixel_statistics(train), test=test)


def _as_source(data: Any, name: str) -> Source:
    """Return a user's source unchanged, and a map-style data set as an ItemSource.

    Raises:
        UserError: it is neither, has no images, or its classes or labels cannot be right.
    """
    if not hasattr(data, "classes") or not hasattr(data, "__len__"):
        raise UserError(
            f"{name} is a {type(data).__name__} without classes or without length",
            "add `classes`, the class names, and `__len__`",
        )
    if isinstance(data.classes, str) or not isinstance(data.classes, Iterable):
        raise UserError(f"{name} has the classes {data.classes!r}", "make `classes` a list of names")
    if len(data) == 0:
        raise UserError(f"{name} has no images", "return at least one")
    classes = tuple(map(str, data.classes))
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise UserError(f"{name} has the classes {', '.join(classes)}", "name two or more, each once")
    if isinstance(data, MemorySource):
        check_memory(data, name)
    if hasattr(data, "shape") and callable(getattr(data, "read", None)):
        source: Source = data
        return source
    if not hasattr(data, "__getitem__"):
        raise UserError(
            f"{name} is a {type(data).__name__} that cannot be read", "add `__getitem__`, or `read` and `shape`"
        )
    return ItemSource(classes, data)
