"""Memory that processes of a machine share as a file without a name: nothing is left behind, however they end."""

import os

import torch
from torch import Tensor

CAN_BE_MADE = hasattr(os, "memfd_create")
"""Linux alone can, and not every build of Python there."""


def make(name: str, size: int) -> int:
    """Return the number of a new open file of `size` bytes, for which there is memory.

    Raises:
        OSError: there is not.
    """
    number = os.memfd_create(name)
    os.posix_fallocate(number, 0, size)
    return number


def mapped(pid: int, number: int, *, size: int, dtype: torch.dtype) -> Tensor:
    """Return a tensor of `size` elements, one dimension, in an open file of a process.

    Raises:
        RuntimeError: there is no such file, or it cannot be seen from here.
    """
    return torch.from_file(f"/proc/{pid}/fd/{number}", shared=True, size=size, dtype=dtype)
