"""Data sets known by name: the embedded digits, and those that torchvision can download."""

import zlib
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from accel_train.data.sources import fashion_mnist as idx
from accel_train.data.sources.base import DataSet, MemorySource, Request, in_memory, one_process_at_a_time
from accel_train.errors import UserError

_DIGITS = tuple("0123456789")
_FASHION = (
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


def _digits(request: Request) -> DataSet:
    packed = resources.files("accel_train.data.sources") / "digits.safetensors"
    tensors = safetensors.torch.load(packed.read_bytes())
    train, val = (
        MemorySource(_DIGITS, tensors[f"{split}.images"], tensors[f"{split}.labels"].long())
        for split in ("train", "val")
    )
    return in_memory("digits", "in the package", train, val)


def _fashion_mnist(request: Request) -> DataSet:
    folder = idx.find_fashion_mnist(request.directory)
    if folder is None:
        return _torchvision("FashionMNIST", request)
    train, val = (_idx_source(folder, split) for split in ("train", "val"))
    return in_memory("fashion-mnist", f"from {folder}", train, val)


def _idx_source(folder: Path, split: str) -> MemorySource:
    images, labels = (
        _read_idx(idx.file_of(folder, name), dimensions)
        for name, dimensions in zip(idx.SPLITS[split], (3, 1), strict=True)
    )
    if len(images) != len(labels):
        raise UserError(
            f"{folder} has {len(images):,} {split} images and {len(labels):,} labels",
            "fetch the four files again",
        )
    return MemorySource(_FASHION, images[:, None], labels.long())


def _read_idx(path: Path, dimensions: int) -> Tensor:
    """Read a file of unsigned bytes in LeCun's IDX format."""
    try:
        content = idx.content(path)
        sizes = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
        if content[:4] != bytes((0, 0, 8, dimensions)):
            raise ValueError("not an IDX file of bytes")
        return torch.frombuffer(content, dtype=torch.uint8, offset=4 + 4 * dimensions).view(sizes)
    except (OSError, EOFError, ValueError, RuntimeError, zlib.error) as error:
        raise UserError(
            f"cannot read {path}: {error}", "fetch the four files again, or give another --data-dir"
        ) from None


def _torchvision(class_name: str, request: Request) -> DataSet:
    from torchvision import datasets

    root = request.cache
    splits = ({"split": "train"}, {"split": "test"}) if class_name == "SVHN" else ({"train": True}, {"train": False})
    try:
        with one_process_at_a_time(root):
            train, val = (getattr(datasets, class_name)(root, download=True, **split) for split in splits)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise UserError(
            f"cannot get {request.name} in {root}: {error}",
            "put the files there, or give the folder that holds them as --data-dir"
            if not isinstance(error, ImportError)
            else "pip install 'accel_train[svhn]'",
        ) from None
    return in_memory(request.name, f"from {root}", _memory_source(train), _memory_source(val))


def _memory_source(data: Any) -> MemorySource:
    images = torch.as_tensor(data.data)
    if images.ndim == 3:  # MNIST and its like: N, H, W
        images = images[:, None]
    elif images.shape[3] == 3:  # CIFAR: N, H, W, C
        images = images.permute(0, 3, 1, 2)
    labels = torch.as_tensor(data.labels if hasattr(data, "labels") else data.targets).long()
    return MemorySource(tuple(getattr(data, "classes", _DIGITS)), images.contiguous(), labels)


PUBLISHED: dict[str, Callable[[Request], DataSet]] = {
    "digits": _digits,
    "fashion-mnist": _fashion_mnist,
    "mnist": partial(_torchvision, "MNIST"),
    "kmnist": partial(_torchvision, "KMNIST"),
    "cifar10": partial(_torchvision, "CIFAR10"),
    "cifar100": partial(_torchvision, "CIFAR100"),
    "svhn": partial(_torchvision, "SVHN"),
}
