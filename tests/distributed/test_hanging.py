"""A process that holds up the others is named and killed by them, long before Gloo gives up; a slow one is not."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TIMEOUT = 4
"""That of watched.py."""
ENDED_WITHIN = TIMEOUT + 5
SCRIPT = Path(__file__).with_name("watched.py")


@dataclass(frozen=True)
class Rank:
    """One process, and the file that its lines go to."""

    process: subprocess.Popen[bytes]
    lines: Path

    def text(self) -> str:
        return self.lines.read_text(encoding="utf-8")


Start = Callable[..., list[Rank]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start watched.py on so many processes, and return them once all know each other."""
    started: list[Rank] = []

    def start(processes: int, *arguments: str) -> list[Rank]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for rank in range(processes):
            lines = tmp_path / f"rank_{rank}"
            environment = os.environ | {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": str(processes),
                "RANK": str(rank),
                "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
            }
            with lines.open("wb") as file:
                process = subprocess.Popen([sys.executable, SCRIPT, *arguments], env=environment, stderr=file)
            started.append(Rank(process, lines))
        deadline = time.monotonic() + 60
        while not all("ready" in rank.text() for rank in started):
            assert time.monotonic() < deadline, [rank.text() for rank in started]
            time.sleep(0.05)
        return started

    yield start
    for rank in started:
        rank.process.kill()
        rank.process.wait()


def assert_named_and_killed(ranks: list[Rank], culprit: int) -> None:
    """Wait until all have ended: the culprit by kill, the others with code 1, and one of them at least named it."""
    deadline = time.monotonic() + ENDED_WITHIN
    codes = [rank.process.wait(timeout=max(0.1, deadline - time.monotonic())) for rank in ranks]
    assert codes == [-signal.SIGKILL if rank == culprit else 1 for rank in range(len(ranks))]
    named = "".join(rank.text() for rank in ranks)
    line = f"rank {culprit} (process {ranks[culprit].process.pid} on {socket.gethostname()}) has not answered for 4 s"
    assert f"{line} (--timeout): killed\n" in named
    assert set(re.findall(r"rank (\d+) \(process", named)) == {str(culprit)}


@pytest.mark.parametrize(("processes", "culprit"), [(2, 1), (2, 0), (3, 1)])
def test_a_stopped_process_is_named_and_killed(start: Start, processes: int, culprit: int) -> None:
    ranks = start(processes, "1000000")
    ranks[culprit].process.send_signal(signal.SIGSTOP)
    assert_named_and_killed(ranks, culprit)


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_process_that_others_wait_for_is_named_and_killed(start: Start, culprit: int) -> None:
    assert_named_and_killed(start(2, "10", f"{culprit}:40"), culprit)


def test_a_computation_longer_than_the_timeout_goes_on_if_all_compute(start: Start) -> None:
    ranks = start(2, "10", "0:8", "1:7")
    assert [rank.process.wait(timeout=14) for rank in ranks] == [0, 0]
    assert not any("has not answered" in rank.text() for rank in ranks)


def test_a_run_that_was_suspended_as_a_whole_goes_on(start: Start) -> None:
    ranks = start(2, "10", "0:9", "1:9")
    time.sleep(1.5)
    for rank in ranks:
        rank.process.send_signal(signal.SIGSTOP)
    time.sleep(TIMEOUT + 2)
    ranks[1].process.send_signal(signal.SIGCONT)
    time.sleep(1)  # it must not take the other, which wakes later, for one that hangs
    ranks[0].process.send_signal(signal.SIGCONT)
    assert [rank.process.wait(timeout=14) for rank in ranks] == [0, 0]
    assert not any("has not answered" in rank.text() for rank in ranks)
