"""One process writes to a run's folder, and a dead one does not keep others out."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from accel_train.errors import UserError
from accel_train.system import folder_lock
from accel_train.system.folder_lock import FolderLock

TAKE = """
import os, sys, time
from pathlib import Path
from accel_train.errors import UserError
from accel_train.system.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
try:
    lock.acquire()
except UserError as error:
    print(error, flush=True)
    sys.exit(2)
"""
HOLD = TAKE + "print('has it', flush=True)\ntime.sleep(60)\n"
HOLD_WITH_A_CHILD = TAKE + "child = os.fork()\nif child:\n    print(child, flush=True)\ntime.sleep(60)\n"
HOLD_AFTER_A_CHILD = (
    TAKE + "if not os.fork():\n    os._exit(0)\nos.wait()\nprint('has it', flush=True)\ntime.sleep(60)\n"
)
HOLD_AFTER_A_RELEASING_CHILD = HOLD_AFTER_A_CHILD.replace("os._exit(0)", "lock.release(), os._exit(0)")
HOLD_A_SECOND = TAKE + "print('has it', flush=True)\ntime.sleep(1)\n"
Process = subprocess.Popen[str]
Start = Callable[[str], Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that runs a script on the folder; what it started is killed afterwards."""
    started: list[Process] = []

    def run(script: str) -> Process:
        words = [sys.executable, "-c", script, str(tmp_path)]
        started.append(Process(words, stdout=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)


def line(process: Process) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip()


def take_within(seconds: float, folder: Path) -> None:
    began = time.monotonic()
    lock = FolderLock(folder)
    lock.acquire()
    assert time.monotonic() - began < seconds
    lock.release()


def test_the_second_is_refused_and_told_who_was_first(start: Start, tmp_path: Path) -> None:
    holder = start(HOLD)
    assert line(holder) == "has it"
    began = time.monotonic()
    with pytest.raises(UserError) as refusal:
        FolderLock(tmp_path).acquire()
    assert 3 <= time.monotonic() - began < 5
    whom = f"process {holder.pid} on host {socket.gethostname()}"
    assert refusal.value.message == f"another run is writing to {tmp_path} ({whom})"
    assert "--output" in refusal.value.hint
    assert (tmp_path / ".lock").read_text().strip() == whom


def test_of_four_at_once_one_gets_it(start: Start, tmp_path: Path) -> None:
    contenders = [start(HOLD) for _ in range(4)]
    said = {process.pid: line(process) for process in contenders}
    (winner,) = [pid for pid, words in said.items() if words == "has it"]
    refusal = f"another run is writing to {tmp_path} (process {winner} on host {socket.gethostname()})"
    assert sorted(said.values()) == [refusal] * 3 + ["has it"]


def test_a_killed_holder_does_not_keep_it_though_its_child_lives(start: Start, tmp_path: Path) -> None:
    holder = start(HOLD_WITH_A_CHILD)
    child = int(line(holder))
    holder.kill()
    holder.wait(10)
    take_within(1, tmp_path)
    os.kill(child, 0)


@pytest.mark.parametrize("script", [HOLD_AFTER_A_CHILD, HOLD_AFTER_A_RELEASING_CHILD])
def test_a_child_that_ends_does_not_take_it_along(
    start: Start, tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lock, "_SECONDS_FOR_THE_DYING", 0.3)
    assert line(start(script)) == "has it"
    with pytest.raises(UserError, match="another run"):
        FolderLock(tmp_path).acquire()


def test_a_holder_that_is_just_ending_is_waited_for(start: Start, tmp_path: Path) -> None:
    holder = start(HOLD_A_SECOND)
    assert line(holder) == "has it"
    take_within(3, tmp_path)
    assert holder.wait(10) == 0


def test_released_it_is_free_and_its_file_stays(start: Start, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("process 123456789 on a host with a long name\n" * 3)
    lock = FolderLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()
    holder = start(HOLD)
    assert line(holder) == "has it"  # asked first: reading the file would release the lock of this process
    assert (tmp_path / ".lock").read_text() == f"process {holder.pid} on host {socket.gethostname()}\n"


def test_another_file_system_is_asked_for_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", has_none)
    with pytest.raises(UserError, match=r"cannot lock .*: No locks available"):
        FolderLock(tmp_path).acquire()
