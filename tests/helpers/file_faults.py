"""Forks processes that are killed or fail at a file operation, and records file operations."""

import itertools
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

_OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.fsync", "os.scandir", "shutil.rmtree"}


def fork(work: Callable[[], None]) -> int:
    """Do some work in a forked child, and return its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_operation(number: int) -> None:
    """Make this process kill itself before its `number`-th file operation."""
    operations = itertools.count(1)
    fsync = os.fsync

    def hook(event: str, _: object) -> None:
        if event in _OPERATIONS and next(operations) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited_fsync(descriptor: int) -> None:
        sys.audit("os.fsync", descriptor)
        fsync(descriptor)

    sys.addaudithook(hook)
    os.fsync = audited_fsync


def die_at_byte(number: int) -> None:
    """Make the system kill this process when it writes byte `number` of any file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))


def fail_at_byte(number: int) -> None:
    """Make writing byte `number` of any file fail, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, resource.RLIM_INFINITY))


def recorded_operations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of each file synced or renamed from now on."""
    seen: list[str] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def name(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    monkeypatch.setattr(os, "fsync", lambda descriptor: (seen.append(name(descriptor)), fsync(descriptor)))
    monkeypatch.setattr(os, "rename", lambda a, b: (seen.append(f"{a.name} -> {b.name}"), rename(a, b)))
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(f"{a.name} -> {b.name}"), replace(a, b)))
    return seen


def names(folder: Path) -> list[str]:
    """Return the sorted names in a folder."""
    return sorted(path.name for path in folder.iterdir())
