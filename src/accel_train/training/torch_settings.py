"""Sets torch's global options: threads, determinism, allocator, compiler."""

import ctypes
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch
import torch._dynamo  # every optimizer imports it when constructed
from torch import nn

from accel_train.distributed.environment import asked_threads, share_of_cores
from accel_train.distributed.environment_check import check_environment
from accel_train.errors import UserError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc's maximum; with all blocks on the heap its gaps would waste memory
_NEVER = 2**31 - 1


def set_torch_options(threads: int | None, exact: bool) -> None:
    """Set the number of threads, and deterministic kernels if `exact`.

    Raises:
        UserError: OpenMP limits the threads to fewer.
    """
    asked = threads or (1 if exact else asked_threads())  # the number of threads changes the last bits of a sum
    if threads or exact or asked != torch.get_num_threads():
        torch.set_num_threads(asked or share_of_cores())
    _check_thread_limit(torch.get_num_threads())
    torch.use_deterministic_algorithms(exact)
    torch.backends.cudnn.benchmark = False  # an earlier run of this process may have set it
    # It costs time and only helps to find bugs.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _check_thread_limit(threads: int) -> None:
    """Check that OpenMP gives all of the threads: torch does not see its limit."""
    limit = os.environ.get("OMP_THREAD_LIMIT", "").strip()
    if limit and int(limit) < threads:
        raise UserError(
            f"OMP_THREAD_LIMIT={limit} is less than the {threads} threads of a process",
            f"add --threads {limit}, or unset it",
        )


@contextmanager
def restored_torch_options() -> Iterator[None]:
    """Restore at the end what `set_torch_options` sets: a run from Python leaves no trace in its process."""
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    exact = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.cudnn.benchmark = benchmark
        torch.use_deterministic_algorithms(exact, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


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
        UserError: the compiler that torch needs is not installed, or the environment switches it off.
    """
    check_environment(applies="compile")
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # torch's choice
    if device.type == "cpu" and not shutil.which(compiler):
        raise UserError(
            f"--compile needs the C++ compiler {compiler}, which is not installed", "install it, or set CXX"
        )
    if device.type == "cuda" and not find_spec("triton"):
        raise UserError("--compile needs the package triton, which is not installed", "pip install triton")
    module.compile()
