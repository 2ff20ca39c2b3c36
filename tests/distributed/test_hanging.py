"""The watchdog names and kills a hung rank long before Gloo times out, but not a slow one."""

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from helpers import warm
from helpers.marks import slow
from helpers.processes import SLOWER, wait_until
from helpers.runner import clean_environment, rank_environments

TIMEOUT = 4
"""Timeout of watched.py in seconds."""
ENDED_WITHIN = 40
"""Gloo times out after 60."""
SCRIPT = Path(__file__).with_name("watched.py")


@dataclass(frozen=True)
class Rank:
    """A rank, and the folder of its output."""

    process: BaseProcess
    streams: Path

    def text(self) -> str:
        return (self.streams / "err").read_text(encoding="utf-8")

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid
        os.kill(self.process.pid, number)

    def code(self, deadline: float) -> int | None:
        """Return the exit code, None if it has not ended by then."""
        self.process.join(max(0.1, deadline - time.monotonic()))
        return self.process.exitcode


Start = Callable[..., list[Rank]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start watched.py on N forked ranks, and return them when all have joined."""
    started: list[Rank] = []

    def start(processes: int, *arguments: str) -> list[Rank]:
        for rank, place in enumerate(rank_environments(processes)):
            streams = tmp_path / f"rank_{rank}"
            streams.mkdir()
            (streams / "err").touch()
            words = [sys.executable, str(SCRIPT), *arguments]
            environment = clean_environment() | place | {"CUDA_VISIBLE_DEVICES": ""}
            started.append(Rank(warm.start(words, folder=tmp_path, environment=environment, streams=streams), streams))
        wait_until(lambda: all("ready" in rank.text() or not rank.process.is_alive() for rank in started), 60)
        assert all(rank.process.is_alive() for rank in started), [rank.text() for rank in started]
        return started

    yield start
    for rank in started:
        rank.process.kill()
        rank.process.join()


def assert_named_and_killed(ranks: list[Rank], culprit: int) -> None:
    """Check that the culprit is killed, that the others exit with code 1, and that they name it."""
    deadline = time.monotonic() + ENDED_WITHIN
    codes = [rank.code(deadline) for rank in ranks]
    assert codes == [-signal.SIGKILL if rank == culprit else 1 for rank in range(len(ranks))]
    named = "".join(rank.text() for rank in ranks)
    line = f"rank {culprit} (process {ranks[culprit].process.pid} on {socket.gethostname()}) has not answered for 4 s"
    assert f"{line} (--timeout): killed\n" in named
    assert set(re.findall(r"rank (\d+) \(process", named)) == {str(culprit)}


@pytest.mark.parametrize(("processes", "culprit"), [(2, 1), slow(2, 0), slow(3, 1)])
def test_stopped_rank_is_named_and_killed(start: Start, processes: int, culprit: int) -> None:
    ranks = start(processes, "1000000")
    ranks[culprit].send(signal.SIGSTOP)
    assert_named_and_killed(ranks, culprit)


@pytest.mark.parametrize("culprit", [0, slow(1)])
def test_rank_that_others_wait_for_is_named_and_killed(start: Start, culprit: int) -> None:
    assert_named_and_killed(start(2, "10", f"{culprit}:40"), culprit)


def test_ranks_that_all_compute_longer_than_the_timeout_continue(start: Start) -> None:
    ranks = start(2, "10", "0:8", "1:7")
    assert [rank.code(time.monotonic() + 14 * SLOWER) for rank in ranks] == [0, 0]
    assert not any("has not answered" in rank.text() for rank in ranks)


def test_suspended_run_continues(start: Start) -> None:
    ranks = start(2, "10", "0:9", "1:9")
    time.sleep(1.5)
    for rank in ranks:
        rank.send(signal.SIGSTOP)
    time.sleep(TIMEOUT + 2)
    ranks[1].send(signal.SIGCONT)
    time.sleep(1)  # it must not kill the other, which wakes later
    ranks[0].send(signal.SIGCONT)
    assert [rank.code(time.monotonic() + 14 * SLOWER) for rank in ranks] == [0, 0]
    assert not any("has not answered" in rank.text() for rank in ranks)
