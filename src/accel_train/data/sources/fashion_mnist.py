"""FashionMNIST, from its four files in LeCun's IDX format."""

import zlib
from pathlib import Path

import torch
from torch import Tensor

from accel_train.data.sources import fashion_mnist_files as files
from accel_train.data.sources.base import DataSet, Request
from accel_train.data.sources.builtin import open_torchvision
from accel_train.data.sources.memory import MemorySource, memory_data
from accel_train.errors import UserError
from accel_train.loggers.text import quantity

_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def open_fashion_mnist(request: Request) -> DataSet:
    """Open the files if they are on this machine, else download them.

    Raises:
        UserError: the files are damaged, or cannot be downloaded.
    """
    folder = files.find_folder(request.directory)
    if folder is None:
        return open_torchvision("FashionMNIST", request)
    train, val = (_read_split(folder, split) for split in ("train", "val"))
    return memory_data("fashion-mnist", f"from {folder}", train, val)


def _read_split(folder: Path, split: str) -> MemorySource:
    images, labels = (
        _read_idx(files.find_file(folder, name), dimensions)
        for name, dimensions in zip(files.SPLITS[split], (3, 1), strict=True)
    )
    if len(images) != len(labels):
        raise UserError(
            f"{folder} has {quantity(len(images), f'{split} image')} and {quantity(len(labels), 'label')}",
            "fetch the four files again",
        )
    return MemorySource(_CLASSES, images[:, None], labels.long())


def _read_idx(path: Path, dimensions: int) -> Tensor:
    """Read an IDX file of unsigned bytes."""
    try:
        content = files.content(path)
        sizes = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
        if content[:4] != bytes((0, 0, 8, dimensions)):
            raise ValueError("not an IDX file of bytes")
        return torch.frombuffer(content, dtype=torch.uint8, offset=4 + 4 * dimensions).view(sizes)
    except (OSError, EOFError, ValueError, RuntimeError, zlib.error) as error:
        raise UserError(
            f"cannot read {path}: {error}", "fetch the four files again, or give another --data-dir"
        ) from None
