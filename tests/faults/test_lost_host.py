"""A host that dies, vanishes or hangs is named by the other one, which ends within the timeout."""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.faults import ENDLESS, Program
from helpers.hosts import PORT, Cluster, cluster, places
from helpers.marks import chaos, slow

TIMEOUT = 6
SECONDS_TO_MEET = 2.5
"""Time until the watchdog of each rank knows the processes of the others."""


def torchrun(number: int) -> list[str]:
    """Return the command for a host, whose launcher has the store on the first one."""
    place = ("--node_rank", str(number), "--master_addr", "host0", "--master_port", PORT)
    return [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", *place, "-m", "accel_train"]


@contextmanager
def endless(folder: Path) -> Iterator[tuple[Cluster, list[Program]]]:
    """Train on two hosts until a test ends it; yield when the ranks know one another."""
    with cluster(folder) as two:
        words = ["train", *ENDLESS, "--output", str(folder / "out"), "--timeout", str(TIMEOUT)]
        ranks = two.start_ranks(words, places())
        ranks[0].wait_for_epoch()
        time.sleep(SECONDS_TO_MEET)
        yield two, ranks


@pytest.mark.parametrize(("number", "vanishes"), [(1, False), slow(0, True), chaos(0, False), chaos(1, True)])
def test_lost_host_is_named_within_the_timeout(tmp_path: Path, number: int, vanishes: bool) -> None:
    """Its peers hear of a host whose processes die; of one without power they hear nothing more."""
    with endless(tmp_path) as (two, ranks):
        if vanishes:
            two.cut(number)
        ranks[number].process.kill()
        left = ranks[1 - number]
        assert left.wait(TIMEOUT + 15) == 1
        assert re.search(rf"rank {number} \(process \d+ on host{number}\)", left.err), left.err


@pytest.mark.chaos
def test_hung_rank_on_another_host_is_named(tmp_path: Path) -> None:
    with endless(tmp_path) as (_, ranks):
        os.kill(ranks[1].pid, signal.SIGSTOP)
        assert ranks[0].wait(TIMEOUT + 15) == 1
        place = f"rank 1 (process {ranks[1].pid} on host1)"
        assert f"{place} has not answered for 6 s (--timeout): on another machine, so not killed" in ranks[0].err


def test_signal_to_one_host_saves_and_stops_both(tmp_path: Path) -> None:
    with endless(tmp_path) as (_, ranks):
        os.kill(ranks[1].pid, signal.SIGTERM)
        assert [rank.wait(10) for rank in ranks] == [143, 143]
        assert ranks[0].saved() > 0


@pytest.mark.slow
def test_lost_host_of_the_launchers_store_is_named(tmp_path: Path) -> None:
    with cluster(tmp_path) as two:
        words = ["train", *ENDLESS, "--output", str(tmp_path / "out"), "--timeout", str(TIMEOUT)]
        first, left = (two.start(number, [*torchrun(number), *words]) for number in range(2))
        first.wait_for_epoch()
        time.sleep(SECONDS_TO_MEET)
        two.lose_power(0)
        assert left.wait(TIMEOUT + 15) != 0
        assert re.search(r"rank 0 \(process \d+ on host0\) has not answered for 6 s", left.err), left.err
