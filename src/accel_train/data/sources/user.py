"""A user's own data, from a function named as my.module:function.

Shape suffixes: B images, C channels, H height, W width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from accel_train.config.import_string import call_function
from accel_train.data.sources.base import DataSet, Ids, Request, Source, View, as_list, download_lock, pixel_statistics
from accel_train.errors import UserError
from accel_train.rng import seed_libraries


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

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        items = []
        for image_id, key in zip(as_list(ids), as_list(ids if keys is None else keys), strict=True):
            seed_libraries(key)
            items.append(self._item(image_id))
        images, labels = zip(*items, strict=True)
        return torch.stack(images), torch.tensor(labels)

    def _item(self, image_id: int) -> tuple[Tensor, int]:
        image, label = self.items[image_id]
        if not isinstance(image, Tensor):
            from torchvision.transforms.functional import pil_to_tensor

            image = pil_to_tensor(image)
        return image, int(label)


def open_function(request: Request) -> DataSet:
    """Call the user's function for its training and validation data.

    Raises:
        UserError: it cannot be imported, or returns something else.
    """
    with download_lock(request.download_folder):  # the function may download
        returned = call_function(request.name, "--data", data_dir=request.directory, seed=request.seed)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise UserError(f"--data {request.name} did not return a pair", "return (training data, validation data)")
    train, val = (_as_source(data, request.name) for data in returned)
    return DataSet("module", f"from {request.name}", train, val, *pixel_statistics(train))


def _as_source(data: Any, name: str) -> Source:
    """Return a user's source unchanged, and a map-style data set as an ItemSource."""
    if not hasattr(data, "classes") or not hasattr(data, "__len__"):
        raise UserError(
            f"--data {name}: {type(data).__name__} has no classes or no length",
            "add `classes`, the class names, and `__len__`",
        )
    if hasattr(data, "read"):
        source: Source = data
        return source
    return ItemSource(tuple(map(str, data.classes)), data)
