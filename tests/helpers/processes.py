"""Starts scripts, and waits for processes, also for those that are not children of this one."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

SLOWER = 10
"""How much longer everything may take on a busy machine than the seconds that tests name."""
StartScript = Callable[[str], "Script"]


class Script(subprocess.Popen[str]):
    """A running script whose output is awaited line by line."""

    def line(self) -> str:
        assert self.stdout
        return self.stdout.readline().rstrip()

    def prints(self, line: str) -> None:
        assert self.line() == line

    def ends(self) -> tuple[int, str]:
        """Return exit code and stderr."""
        _, err = self.communicate(timeout=10 * SLOWER)
        return self.returncode, err


@contextmanager
def scripts(folder: Path) -> Iterator[StartScript]:
    """Yield a function that starts a Python script in a folder; kill what it has started in the end."""
    started: list[Script] = []

    def start(script: str) -> Script:
        words, pipe = [sys.executable, "-c", script], subprocess.PIPE
        started.append(Script(words, stdout=pipe, stderr=pipe, text=True, cwd=folder, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        for one in (*psutil.Process(process.pid).children(recursive=True), process) if process.poll() is None else ():
            one.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # processes whose parent is dead
        process.communicate()


def lives(process: psutil.Process) -> bool:
    """Return whether a process has not ended yet; a zombie has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def send_signal(number: int, *processes: psutil.Process) -> None:
    """Send a signal to processes; it is no error if one has ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.005) -> None:
    """Wait for a condition, and fail if not even a machine `SLOWER` times slower would need so long."""
    deadline = time.monotonic() + SLOWER * seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {SLOWER * seconds} s"
        time.sleep(pause)


def wait_for_end(process: psutil.Process, seconds: float) -> None:
    wait_until(lambda: not lives(process), seconds)
