"""Sets torch's global options: threads, determinism, allocator, compiler."""

import ctypes
import os
import platform
import shutil
import sys
from importlib.util import find_spec

import torch
import torch._dynamo  # every optimizer imports it when constructed
from torch import nn

from accel_train.distributed.environment import share_of_cores
from accel_train.errors import UserError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc's maximum; with all blocks on the heap its gaps would waste memory
_NEVER = 2**31 - 1


def set_torch_options(threads: int | None, exact: bool) -> None:
    """Set the number of threads, deterministic kernels if `exact`, and keep freed memory."""
    keep_freed_memory()
    if exact:  # the number of threads changes the last bits of a sum
        threads = threads or 1
    elif threads is None and not os.environ.get("OMP_NUM_THREADS"):
        threads = share_of_cores()
    if threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(exact)
    torch.backends.cudnn.benchmark = False  # an earlier run of this process may have set it
    # It costs time and only helps to find bugs.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def keep_freed_memory() -> None:
    """Make glibc keep the memory of freed tensors for the next ones; without glibc do nothing.

    By default glibc returns large blocks to the kernel, which then clears each page again: this costs a small CNN a
    third of its throughput (see benchmarks/README.md).
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)


def benchmark_convolutions(device: torch.device) -> None:
    """Make cuDNN time its convolutions for each new shape and keep the fastest.

    Raises:
        UserError: the device is not CUDA.
    """
    if device.type != "cuda":
        raise UserError(f"--cudnn-benchmark has no effect on {device.type}", "leave it out, or use --device cuda")
    torch.backends.cudnn.benchmark = True


def compile_model(module: nn.Module, device: torch.device) -> None:
    """Compile a module at its first call; its weights keep their names.

    Raises:
        UserError: the compiler that torch needs is not installed.
    """
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # torch's choice
    if device.type == "cpu" and not shutil.which(compiler):
        raise UserError(
            f"--compile needs the C++ compiler {compiler}, which is not installed", "install it, or set CXX"
        )
    if device.type == "cuda" and not find_spec("triton"):
        raise UserError("--compile needs the package triton, which is not installed", "pip install triton")
    module.compile()
