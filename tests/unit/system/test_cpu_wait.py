"""Waiting for a CPU is measured, and noted once with the number of threads that would wait less."""

import os
import time

import pytest

from accel_train.system import cpu_wait
from accel_train.system.cpu_wait import CpuWait, Usage, read_usage

START = Usage(wall=100.0, waited=5.0, own=50.0, machine=500.0)


def after(seconds: float, waited: float, own: float, machine: float) -> Usage:
    """Return the usage after some seconds, in CPUs and threads per second."""
    return Usage(
        START.wall + seconds,
        START.waited + seconds * waited,
        START.own + seconds * own,
        START.machine + seconds * machine,
    )


def notes(monkeypatch: pytest.MonkeyPatch, later: Usage | None, threads: int, processes: int, cores: int) -> str | None:
    """Return the note of the second look, ten seconds after the first."""
    monkeypatch.setattr(cpu_wait, "_SECONDS", 0.0)
    readings = iter((START, later, later))
    wait = CpuWait(threads, processes, cores, read=lambda: next(readings))
    assert wait.note() is None
    return wait.note()


@pytest.mark.parametrize(
    ("threads", "processes", "cores", "waited", "own", "machine", "advised"),
    [
        (2, 1, 2, 0.67, 1.33, 2.0, 1),  # one busy loop: three threads share two CPUs
        (2, 1, 2, 1.0, 1.0, 2.0, 1),  # two busy loops
        (8, 1, 8, 3.0, 6.4, 8.0, 6),  # two busy loops beside eight threads
        (4, 2, 8, 2.0, 3.2, 8.0, 3),  # two processes, two busy loops
    ],
)
def test_note_gives_the_threads_for_which_there_are_cpus(
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
    processes: int,
    cores: int,
    waited: float,
    own: float,
    machine: float,
    advised: int,
) -> None:
    note = notes(monkeypatch, after(10, waited, own, machine), threads, processes, cores)
    assert note is not None
    assert f"wait for a CPU {100 * waited / threads:.0f} % of the time: other programs use this machine" in note
    assert f"--threads {advised} should be faster" in note


def test_one_thread_that_waits_is_noted_without_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    note = notes(monkeypatch, after(10, 0.5, 0.5, 2.0), threads=1, processes=1, cores=2)
    assert note == "the threads of this run wait for a CPU 50 % of the time: other programs use this machine"


def test_quiet_machine_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes(monkeypatch, after(10, 0.08, 1.9, 2.0), threads=2, processes=1, cores=2) is None


def test_system_that_does_not_tell_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes(monkeypatch, None, threads=2, processes=1, cores=2) is None


def test_note_comes_once_and_looks_are_seconds_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def read() -> Usage:
        nonlocal looks
        looks += 1
        return after(10 * looks, 2.0, 1.0, 2.0)

    wait = CpuWait(2, 1, 2, read=read)
    assert [wait.note() for _ in range(100)] == [None] * 100
    assert looks == 1
    monkeypatch.setattr(cpu_wait, "_SECONDS", 0.0)
    wait = CpuWait(2, 1, 2, read=read)
    assert sum(wait.note() is not None for _ in range(100)) == 1
    assert looks == 3


def test_usage_of_this_process_is_read() -> None:
    before = read_usage()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    later = read_usage()
    assert before is not None
    assert later is not None
    assert later.wall - before.wall >= 0.3
    assert 0 < later.own - before.own <= later.wall - before.wall + 0.05
    assert later.waited >= before.waited
    assert later.machine - before.machine <= (later.wall - before.wall) * len(os.sched_getaffinity(0)) + 0.1
