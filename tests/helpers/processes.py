"""Waiting for processes that are nobody's children, or somebody else's."""

import time
from collections.abc import Callable

import psutil


def lives(process: psutil.Process) -> bool:
    """Return whether a process has not ended yet; one that only nobody has asked about has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.001)


def wait_for_end(process: psutil.Process, seconds: float) -> None:
    wait_until(lambda: not lives(process), seconds)
