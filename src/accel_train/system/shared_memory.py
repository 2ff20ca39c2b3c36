"""Memory that processes of a machine share through an unnamed file; it is gone when they have ended."""

import os

import torch
from torch import Tensor

CAN_BE_MADE = hasattr(os, "memfd_create")
"""True on Linux, unless Python was built without it."""


def make(name: str, size: int) -> int:
    """Return the descriptor of a new file of `size` bytes, all of them allocated.

    Raises:
        OSError: there is not enough memory.
    """
    descriptor = os.memfd_create(name)
    os.posix_fallocate(descriptor, 0, size)
    return descriptor


def mapped(pid: int, descriptor: int, *, size: int, dtype: torch.dtype) -> Tensor:
    """Return a one-dimensional tensor of `size` elements in an open file of a process.

    Raises:
        RuntimeError: there is no such file, or this process may not open it.
    """
    return torch.from_file(f"/proc/{pid}/fd/{descriptor}", shared=True, size=size, dtype=dtype)
