"""Keeps a second run out of a run's folder."""

import errno
import fcntl
import os
import socket
import time
from pathlib import Path

from accel_train.errors import UserError

_SECONDS_FOR_THE_DYING = 3.0
_SECONDS_BETWEEN_TRIES = 0.1


class FolderLock:
    """A lock that ends with the process that holds it, even if children that it forked live on.

    It is a POSIX record lock: a process has it once, its children have not, and it is gone as soon as the process
    closes any descriptor of the file, so nothing else may open that.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, waiting a moment for a holder that is just ending.

        Raises:
            UserError: another run has it, or the file system has no locks.
        """
        assert self._descriptor is None
        try:
            descriptor = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
            if not _locked(descriptor):
                holder = os.pread(descriptor, 1000, 0).decode(errors="replace").strip() or "unknown process"
                os.close(descriptor)
                raise UserError(
                    f"another run is writing to {self._folder} ({holder})", "stop it first, or give another --output"
                )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)
        except OSError as error:
            raise UserError(
                f"cannot lock {self._folder}: {error.strerror}", "give an --output on another file system"
            ) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock up; its file stays, as removing it could take it from under the next holder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _locked(descriptor: int) -> bool:
    """Return whether the lock could be had before it was too late."""
    deadline = time.monotonic() + _SECONDS_FOR_THE_DYING
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
        time.sleep(_SECONDS_BETWEEN_TRIES)
