"""Notices that other programs keep the threads of this process waiting for a CPU (Linux)."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SECONDS = 10.0
"""Shortest time over which waiting is measured."""
_SHARE = 0.25
"""Of a thread's time spent waiting, from which on it is worth a note; a quiet machine has less than 0.05."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BUSY = (1, 2, 3, 6, 7)
"""Columns of /proc/stat: user, nice, system, irq, softirq."""


class Usage(NamedTuple):
    """Seconds since some moment in the past."""

    wall: float
    waited: float
    """For a CPU, all threads of this process."""
    own: float
    """CPU time of this process."""
    machine: float
    """CPU time of all programs, on the CPUs that this process may use."""


class CpuWait:
    """Measures every ten seconds how long this process has waited; notes it once."""

    def __init__(
        self, threads: int, processes: int, cores: int, read: Callable[[], Usage | None] | None = None
    ) -> None:
        """`processes` with `threads` each share the `cores` of this machine."""
        self._threads, self._processes, self._cores = threads, processes, cores
        self._read = read or read_usage
        self._last: Usage | None = None
        self._due = 0.0

    def note(self) -> str | None:
        """Return a note, the first time that it is due; cheap, and so called after every update."""
        if (now := time.monotonic()) < self._due:
            return None
        before, self._last = self._last, self._read()
        self._due = now + _SECONDS
        if before is None or self._last is None:
            return None
        wall, waited, own, machine = (b - a for a, b in zip(before, self._last, strict=True))
        share = waited / wall / self._threads
        if share < _SHARE:
            return None
        self._due = float("inf")
        figure = f"the threads of this run wait for a CPU {100 * min(share, 1):.0f} % of the time"
        return f"{figure}: other programs use this machine{self._advice(machine / wall, own / wall)}"

    def _advice(self, machine: float, own: float) -> str:
        """Return the number of threads that leaves the CPUs that other programs want, if it is lower."""
        ours = self._threads * self._processes
        used = max(0.0, machine - own * self._processes)
        # Where more threads are ready than there are CPUs, each gets the same share of one.
        wanted = used * ours / max(0.1, self._cores - used)
        threads = max(1, round(self._cores - wanted) // self._processes)
        if threads >= self._threads:
            return ""
        return f"; --threads {threads} should be faster (stop this run, and start it again with it)"


def read_usage() -> Usage | None:
    """Return the usage so far; None where the system does not tell."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        columns = {line.split()[0]: line.split() for line in lines if line.startswith("cpu")}
        allowed = [columns[f"cpu{number}"] for number in os.sched_getaffinity(0) if f"cpu{number}" in columns]
        tasks = list(Path("/proc/self/task").iterdir())
    except (OSError, AttributeError):
        return None
    waited = 0
    for task in tasks:
        with suppress(OSError):  # a thread that has ended
            waited += int((task / "schedstat").read_text().split()[1])
    busy = sum(int(cpu[column]) for cpu in allowed for column in _BUSY)
    return Usage(time.monotonic(), waited / 1e9, time.process_time(), busy / _TICKS_PER_SECOND)
