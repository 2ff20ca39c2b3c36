"""Errors of a folder's lock; tests/faults has the tests with several processes."""

import errno
import fcntl
from pathlib import Path

import pytest
from helpers.privileges import no_privileges

from accel_train.errors import UserError
from accel_train.system.folder_lock import FolderLock, is_locked


def test_check_changes_nothing(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.check()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".lock").write_text("process 1 on host a\n")
    lock.check()
    FolderLock(tmp_path / "new").check()
    assert (tmp_path / ".lock").read_text() == "process 1 on host a\n"
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_file_system_without_locks_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    with pytest.raises(UserError, match=r"cannot lock .*: No locks available"):
        FolderLock(tmp_path).acquire()


def test_full_file_system_of_the_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fcntl, "lockf", full)
    with pytest.raises(UserError, match=r"cannot lock .*: No space left on device: the file system /.* free$"):
        FolderLock(tmp_path).acquire()


def test_lock_of_another_user_is_named(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch(0o444)
    with no_privileges(), pytest.raises(UserError) as refused:
        FolderLock(tmp_path).acquire()
    assert refused.value.message == f"cannot lock {tmp_path}: no permission for {tmp_path}/.lock"
    assert refused.value.hint == "let its owner make it writable, or give another --output"


def test_folder_without_a_holder_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "missing")
    (tmp_path / ".lock").write_text("process 1 on host a\n")
    assert not is_locked(tmp_path)
    assert (tmp_path / ".lock").read_text() == "process 1 on host a\n"
