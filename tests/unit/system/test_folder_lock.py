"""Errors of a folder's lock; tests/faults has the tests with several processes."""

import errno
import fcntl
from pathlib import Path

import pytest

from accel_train.errors import UserError
from accel_train.system.folder_lock import FolderLock


def test_file_system_without_locks_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    with pytest.raises(UserError, match=r"cannot lock .*: No locks available"):
        FolderLock(tmp_path).acquire()
