"""Runs accel_train with faults planted in the process of rank 1: `planted.py FAULT+FAULT WORDS…`.

Each fault is what a broken machine does to a program: a limit, a file system of its own, a call that fails.
"""

import ctypes
import errno
import fcntl
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from accel_train.__main__ import main

_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x00020000, 0x4000, 0x40000


def _mount(folder: str, size: str) -> None:
    """Mount an empty file system that only this process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    for code in (
        libc.unshare(_CLONE_NEWNS),
        libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None),
        libc.mount(b"none", folder.encode(), b"tmpfs", 0, f"size={size}".encode()),
    ):
        assert code == 0, os.strerror(ctypes.get_errno())


def _refuse(module: Any, name: str, number: int) -> None:
    """Let a function of the system fail on files of the doctor."""
    real = getattr(module, name)

    def refusing(target: Any, *more: Any, **options: Any) -> Any:
        path = str(Path(f"/proc/self/fd/{target}").readlink()) if isinstance(target, int) else os.fspath(target)
        if ".accel_train_doctor_" in path:
            raise OSError(number, os.strerror(number), path)
        return real(target, *more, **options)

    setattr(module, name, refusing)


def _skew_clock() -> None:
    real = time.time
    time.time = lambda: real() + 3600


def _corrupt_sums() -> None:
    real = torch.distributed.all_reduce

    def corrupting(tensor: torch.Tensor, *more: Any, **options: Any) -> Any:
        done = real(tensor, *more, **options)
        if tensor.numel() > 1000:
            tensor[-1] += 1
        return done

    torch.distributed.all_reduce = corrupting


def _slow_down() -> None:
    real = torch.matmul

    def slow(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            real(first, second)
        return real(first, second)

    torch.matmul = slow


def _stop() -> NoReturn:
    """Stop this process when it measures its speed, as a debugger or a full scheduler does."""

    def stopping(*_: Any) -> NoReturn:
        while True:
            os.kill(os.getpid(), signal.SIGSTOP)

    torch.matmul = stopping


FAULTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "clock": _skew_clock,
    "rename": lambda: _refuse(os, "replace", errno.EPERM),
    "fsync": lambda: _refuse(os, "fsync", errno.EIO),
    "own small file system": lambda: _mount(str(Path.cwd()), "16m"),
    "shared memory": lambda: _mount("/dev/shm", "8m"),
    "open files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60)),
    "wrong sums": _corrupt_sums,
    "slow": _slow_down,
    "stopped": _stop,
    "no locks": lambda: setattr(fcntl, "lockf", lambda *_: None),
    "options": lambda: sys.argv.extend(["--seed", "7"]),
}

if __name__ == "__main__":
    faults, *words = sys.argv[1:]
    sys.argv = ["accel_train", *words]
    for fault in faults.split("+") if os.environ["RANK"] == "1" else []:
        FAULTS[fault]()
    main()
