"""Sets up a process to compute fast, and alike where it is asked to."""

import ctypes
import os
import platform
import shutil
import sys
from importlib.util import find_spec

import torch
import torch._dynamo  # which every optimizer imports when it is made
from torch import nn

from accel_train.distributed.environment import share_of_cores
from accel_train.errors import UserError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc takes no more; to have all from the heap would waste it on its gaps
_NEVER = 2**31 - 1


def tune(threads: int | None, exact: bool) -> None:
    """Choose how many threads compute, which kernels, and what becomes of freed memory."""
    keep_freed_memory()
    if exact:  # threads change the last bits of a sum
        threads = threads or 1
    elif threads is None and not os.environ.get("OMP_NUM_THREADS"):
        threads = share_of_cores()
    if threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(exact)
    # It costs time, and is for finding bugs.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def keep_freed_memory() -> None:
    """Have glibc keep the memory of freed tensors for the next ones.

    By itself it returns large blocks to the kernel, which must then clear each page again: on a small CNN a third of
    the images per second (see benchmarks/README.md). Elsewhere than on glibc this does nothing.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)


def benchmark_convolutions(device: torch.device) -> None:
    """Have cuDNN time its convolutions for each new shape and keep the fastest.

    Raises:
        UserError: the device is not one of CUDA.
    """
    if device.type != "cuda":
        raise UserError(f"--cudnn-benchmark has no effect on {device.type}", "leave it out, or use --device cuda")
    torch.backends.cudnn.benchmark = True


def compile_model(module: nn.Module, device: torch.device) -> None:
    """Have a module compiled when it is first called; its weights keep their names.

    Raises:
        UserError: what torch compiles with is not here.
    """
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # as torch chooses it
    if device.type == "cpu" and not shutil.which(compiler):
        raise UserError(f"--compile needs the C++ compiler {compiler}, which is not here", "install it, or set CXX")
    if device.type == "cuda" and not find_spec("triton"):
        raise UserError("--compile needs the package triton, which is not here", "pip install triton")
    module.compile()
