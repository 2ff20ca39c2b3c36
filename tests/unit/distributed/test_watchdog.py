"""Who is to blame is told from what a process knows of the others, and no innocent process is killed."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest
from helpers.processes import wait_for_end

from accel_train.distributed.watchdog import Peer, _end_peer, holding_up

LONELY = """
import sys, threading
from torch.distributed import HashStore
from accel_train.distributed.watchdog import PeerWatch

def report(line):
    print(line, flush=True)

watch = PeerWatch(HashStore(), 0, int(sys.argv[1]), 1, report)
watch.start()
threading.Event().wait(float(sys.argv[2]))
watch.stop()
"""


def peer(rank: int, ticks: int, *, ticked_at: float = 0, beat_at: float = 100) -> Peer:
    return Peer(rank, ticked_at=ticked_at, beat_at=beat_at, ticks=ticks, host="host", pid=1)


STOPPED = peer(1, 7, beat_at=80)
BEHIND = peer(2, 6)
FAR = peer(3, 7)


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        ([], []),
        ([FAR], []),  # equally far: all compute
        ([peer(1, 8)], []),  # this process itself is late
        ([BEHIND, FAR], [2]),
        ([peer(1, 6, ticked_at=95), FAR], []),  # slow, but it moves
        ([peer(1, 5, ticked_at=95), BEHIND], []),  # the second waits for the first, which moves
        ([peer(1, 6), BEHIND, FAR], [1, 2]),
        ([STOPPED, FAR], [1]),
        ([STOPPED, BEHIND], [1]),  # the second waits for the first
        ([replace(STOPPED, ticks=9), FAR], [1]),
        ([peer(1, 7, beat_at=91)], []),
    ],
)
def test_the_culprit_is_who_gives_no_sign_of_life_or_is_furthest_behind(peers: list[Peer], expected: list[int]) -> None:
    assert [p.rank for p in holding_up(peers, 7, 10, awake_since=0, read_at=100)] == expected


@pytest.mark.parametrize("culprit", [STOPPED, BEHIND])
def test_what_happened_while_this_process_was_stopped_does_not_count(culprit: Peer) -> None:
    assert holding_up([culprit], 7, 10, awake_since=90, read_at=100) == [culprit]
    assert holding_up([culprit], 7, 10, awake_since=91, read_at=100) == []


def test_a_peer_moves_and_lives_as_its_entries_change() -> None:
    first = Peer(1, 0, 0).heard(b'["elsewhere", 12, 3, 0]', 1)
    assert (first.host, first.pid, first.ticks, first.ticked_at, first.beat_at) == ("elsewhere", 12, 3, 1, 1)
    lives = first.heard(b'["elsewhere", 12, 3, 1]', 2)
    assert (lives.ticked_at, lives.beat_at) == (1, 2)
    silent = lives.heard(b'["elsewhere", 12, 3, 1]', 3)
    assert silent == lives
    assert silent.heard(b'["elsewhere", 12, 4, 2]', 4).ticked_at == 4


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of rank 1."""
    words = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
    with subprocess.Popen(words, env=os.environ | {"RANK": "1"}, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("rank", "host", "code", "outcome"),
    [
        (1, socket.gethostname(), -9, "killed"),
        (2, socket.gethostname(), None, "on another machine, so not killed from here"),  # a container's number
        (1, "elsewhere", None, "on another machine, so not killed from here"),
    ],
)
def test_only_a_process_of_that_rank_on_this_machine_is_killed(
    sleeper: subprocess.Popen[bytes], rank: int, host: str, code: int | None, outcome: str
) -> None:
    culprit = Peer(rank, 0, 0).heard(f'["{host}", {sleeper.pid}, 0, 0]'.encode(), 0)
    said = f"rank {rank} (process {sleeper.pid} on {host}) has not answered for 10 s (--timeout): {outcome}"
    assert _end_peer(culprit, 10) == said
    if code is None:
        assert sleeper.poll() is None
    else:
        assert sleeper.wait(timeout=5) == code


DEAF_WORKER = """
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_the_loader_workers_of_a_process_that_is_killed_go_with_it() -> None:
    words, environment = [sys.executable, "-c", DEAF_WORKER], os.environ | {"RANK": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        worker = psutil.Process(int(process.stdout.readline()))
        _end_peer(Peer(1, 0, 0).heard(f'["{socket.gethostname()}", {process.pid}, 0, 0]'.encode(), 0), 10)
        wait_for_end(worker, 5)


def test_a_process_that_has_ended_is_not_mistaken_for_another(sleeper: subprocess.Popen[bytes]) -> None:
    culprit = Peer(1, 0, 0).heard(f'["{socket.gethostname()}", {sleeper.pid}, 0, 0]'.encode(), 0)
    sleeper.kill()
    sleeper.wait()
    assert _end_peer(culprit, 10).endswith(": it is gone")


def test_a_peer_that_never_starts_is_named() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LONELY, "2", "30"], capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout == "rank 1 did not start within 1 s (--timeout)\n"


def test_a_process_alone_waits_for_nobody() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LONELY, "1", "4"], capture_output=True, text=True, timeout=20, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
