"""One process at a time holds the lock of a folder, and a dead one does not keep it."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.processes import SLOWER, StartScript, scripts

from accel_train.errors import UserError
from accel_train.system import folder_lock
from accel_train.system.folder_lock import FolderLock

LOCK = """
import os, sys, time
from pathlib import Path
from accel_train.errors import UserError
from accel_train.system.folder_lock import FolderLock
lock = FolderLock(Path.cwd())
try:
    lock.acquire()
except UserError as error:
    print(error, flush=True)
    sys.exit(2)
"""
HOLD = LOCK + "print('locked', flush=True)\ntime.sleep(60)\n"
HOLD_WITH_CHILD = LOCK + "child = os.fork()\nif child:\n    print(child, flush=True)\ntime.sleep(60)\n"
HOLD_AFTER_CHILD = LOCK + "if not os.fork():\n    os._exit(0)\nos.wait()\nprint('locked', flush=True)\ntime.sleep(60)\n"
HOLD_AFTER_RELEASING_CHILD = HOLD_AFTER_CHILD.replace("os._exit(0)", "lock.release(), os._exit(0)")
HOLD_FOR_A_SECOND = LOCK + "print('locked', flush=True)\ntime.sleep(1)\n"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartScript]:
    """Return a function that starts a script in the folder to lock."""
    with scripts(tmp_path) as start:
        yield start


def lock_within(seconds: float, folder: Path) -> None:
    began = time.monotonic()
    lock = FolderLock(folder)
    lock.acquire()
    assert time.monotonic() - began < SLOWER * seconds
    lock.release()


def test_second_process_is_rejected_with_the_holder(start: StartScript, tmp_path: Path) -> None:
    holder = start(HOLD)
    holder.prints("locked")
    began = time.monotonic()
    with pytest.raises(UserError) as refusal:
        FolderLock(tmp_path).acquire()
    assert 3 <= time.monotonic() - began < 5 * SLOWER
    holder_name = f"process {holder.pid} on host {socket.gethostname()}"
    assert refusal.value.message == f"another run is writing to {tmp_path} ({holder_name})"
    assert "--output" in refusal.value.hint
    assert (tmp_path / ".lock").read_text().strip() == holder_name


def test_check_finds_the_holder(start: StartScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "_WAIT_SECONDS", 0)
    holder = start(HOLD)
    holder.prints("locked")
    with pytest.raises(UserError, match=rf"another run is writing to {tmp_path} \(process {holder.pid} on host "):
        FolderLock(tmp_path).check()
    holder.kill()
    holder.wait()
    FolderLock(tmp_path).check()


def test_one_of_four_concurrent_processes_acquires_the_lock(start: StartScript, tmp_path: Path) -> None:
    contenders = [start(HOLD) for _ in range(4)]
    answers = {process.pid: process.line() for process in contenders}
    (winner,) = [pid for pid, words in answers.items() if words == "locked"]
    refusal = f"another run is writing to {tmp_path} (process {winner} on host {socket.gethostname()})"
    assert sorted(answers.values()) == [refusal] * 3 + ["locked"]


def test_killed_holder_loses_the_lock_although_its_child_lives(start: StartScript, tmp_path: Path) -> None:
    holder = start(HOLD_WITH_CHILD)
    child = int(holder.line())
    holder.kill()
    holder.wait(10 * SLOWER)
    lock_within(1, tmp_path)
    os.kill(child, 0)


@pytest.mark.parametrize("script", [HOLD_AFTER_CHILD, HOLD_AFTER_RELEASING_CHILD])
def test_end_of_a_child_does_not_release_the_lock(
    start: StartScript, tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lock, "_WAIT_SECONDS", 0.3)
    start(script).prints("locked")
    with pytest.raises(UserError, match="another run"):
        FolderLock(tmp_path).acquire()


def test_acquire_waits_for_a_holder_that_is_exiting(start: StartScript, tmp_path: Path) -> None:
    holder = start(HOLD_FOR_A_SECOND)
    holder.prints("locked")
    lock_within(3, tmp_path)
    assert holder.wait(10 * SLOWER) == 0


def test_acquire_waits_as_long_as_asked(start: StartScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "_WAIT_SECONDS", 0)
    start(HOLD_FOR_A_SECOND).prints("locked")
    lock = FolderLock(tmp_path, wait_seconds=3)
    lock.acquire()
    lock.release()


def test_release_frees_the_lock_and_keeps_its_file(start: StartScript, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("process 123456789 on a host with a long name\n" * 3)
    lock = FolderLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()
    holder = start(HOLD)
    holder.prints("locked")  # before the next line: reading the file would release a lock of this process
    assert (tmp_path / ".lock").read_text() == f"process {holder.pid} on host {socket.gethostname()}\n"
