"""A lock that keeps a second run out of a run's folder."""

import errno
import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from accel_train.errors import UserError
from accel_train.system import os_errors
from accel_train.system.regular_files import kind_of

_NAME = ".lock"
_WAIT_SECONDS = 3.0
_POLL_SECONDS = 0.1


class FolderLock:
    """An exclusive lock that ends with its process, even if forked children live on.

    It is a POSIX record lock: the process holds it, its children do not. The process loses it by closing any
    descriptor of the file, so nothing else may open that file.
    """

    def __init__(self, folder: Path, wait_seconds: float | None = None) -> None:
        self._folder = folder
        self._wait_seconds = _WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Acquire the lock; wait a moment for a holder that is exiting.

        Raises:
            UserError: another run holds it, or the file system has no locks.
        """
        assert self._descriptor is None
        try:
            while self._descriptor is None:
                self._descriptor = self._open()
            if os.fstat(self._descriptor).st_nlink == 1:  # else it is another's file too
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"process {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)
        except PermissionError as error:
            raise UserError(
                f"cannot lock {self._folder}: no permission for {error.filename}",
                "let its owner make it writable, or give another --output",
            ) from None
        except OSError as error:
            found = os_errors.explain(error, self._folder)
            raise UserError(
                f"cannot lock {self._folder}: {found.reason if found else error.strerror}",
                "give another --output, on another file system",
            ) from None

    def check(self) -> None:
        """Check that no other run holds the lock; change nothing.

        Raises:
            UserError: another run holds it.
        """
        if (self._folder / _NAME).exists():
            with suppress(OSError):  # a run would not get so far
                if descriptor := self._open():
                    os.close(descriptor)

    def _open(self) -> int | None:
        """Open and lock the file; return None if its last holder has removed it meanwhile."""
        path = self._folder / _NAME
        if (kind := kind_of(path)) not in (None, "a file"):
            raise UserError(f"{path} is {kind}, not a lock", "remove it")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        if not _locked(descriptor, self._wait_seconds):
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace").strip() or "unknown process"
            os.close(descriptor)
            raise UserError(
                f"another run is writing to {self._folder} ({holder})", "stop it first, or give another --output"
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return descriptor
        os.close(descriptor)
        return None

    def release(self) -> None:
        """Release the lock; keep its file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(folder: Path) -> bool:
    """Return whether another process holds the lock of a folder; change nothing. This one must not hold it."""
    try:
        descriptor = os.open(folder / _NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    finally:
        os.close(descriptor)
    return False


def _locked(descriptor: int, seconds: float) -> bool:
    """Return whether the lock was acquired in time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        else:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
