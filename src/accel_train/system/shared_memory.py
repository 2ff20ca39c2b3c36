"""Memory that processes of a machine share through an unnamed file; it is gone when they have ended."""

import errno
import os
from pathlib import Path

import torch
from torch import Tensor

from accel_train.system.os_errors import number_of

CAN_BE_MADE = hasattr(os, "memfd_create")
"""True on Linux, unless Python was built without it."""


def make(name: str, size: int) -> int:
    """Return the descriptor of a new file of `size` bytes, all of them allocated.

    Raises:
        OSError: there is not enough memory.
    """
    descriptor = os.memfd_create(name)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_lost(error: RuntimeError, pid: int) -> bool:
    """Return whether a file could not be mapped because its process has ended.

    Until its parent asks for its exit code, the process is still listed, and its files belong to root.
    """
    number = number_of(error)
    return number in (errno.ENOENT, errno.ESRCH) or (number == errno.EACCES and _has_no_memory(pid))


def _has_no_memory(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/statm").read_text().startswith("0 ")
    except OSError:
        return True


def mapped(pid: int, descriptor: int, *, size: int, dtype: torch.dtype) -> Tensor:
    """Return a one-dimensional tensor of `size` elements in an open file of a process.

    Raises:
        RuntimeError: there is no such file, or this process may not open it.
    """
    return torch.from_file(f"/proc/{pid}/fd/{descriptor}", shared=True, size=size, dtype=dtype)
