"""The digits in the package, and the data sets that torchvision downloads."""

from contextlib import nullcontext
from importlib import resources
from typing import Any

import safetensors.torch
import torch

from accel_train.data.sources.base import DataSet, Request, download_lock
from accel_train.data.sources.memory import MemorySource, memory_data
from accel_train.errors import UserError

_DIGITS = tuple("0123456789")


def open_digits(request: Request) -> DataSet:
    packed = resources.files("accel_train.data.sources") / "digits.safetensors"
    tensors = safetensors.torch.load(packed.read_bytes())
    train, val = (
        MemorySource(_DIGITS, tensors[f"{split}.images"], tensors[f"{split}.labels"].long())
        for split in ("train", "val")
    )
    return memory_data("digits", "in the package", train, val)


def open_torchvision(class_name: str, request: Request) -> DataSet:
    """Open a data set of torchvision's that is given by its class, downloading it if needed.

    Raises:
        UserError: it cannot be downloaded or read.
    """
    from torchvision import datasets

    root = request.download_folder
    splits = ({"split": "train"}, {"split": "test"}) if class_name == "SVHN" else ({"train": True}, {"train": False})
    try:
        with download_lock(root) if request.download else nullcontext():
            train, val = (getattr(datasets, class_name)(root, download=request.download, **split) for split in splits)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise UserError(
            f"cannot get {request.name} in {root}: {error}",
            "put the files there, or give the folder that holds them as --data-dir"
            if not isinstance(error, ImportError)
            else "pip install 'accel_train[svhn]'",
        ) from None
    return memory_data(request.name, f"from {root}", _memory_source(train), _memory_source(val))


def _memory_source(data: Any) -> MemorySource:
    images = torch.as_tensor(data.data)
    if images.ndim == 3:  # MNIST and similar: N, H, W
        images = images[:, None]
    elif images.shape[3] == 3:  # CIFAR: N, H, W, C
        images = images.permute(0, 3, 1, 2)
    labels = torch.as_tensor(data.labels if hasattr(data, "labels") else data.targets).long()
    return MemorySource(tuple(getattr(data, "classes", _DIGITS)), images.contiguous(), labels)
