"""A watchdog kills the process of a hung rank on this machine with its loader workers, and no other process."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from helpers.processes import wait_for_end

from accel_train.distributed.watchdog import Peer, _end_peer


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process of rank 1."""
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
        (2, socket.gethostname(), None, "on another machine, so not killed from here"),  # a PID in another container
        (1, "elsewhere", None, "on another machine, so not killed from here"),
    ],
)
def test_only_that_rank_on_this_machine_is_killed(
    sleeper: subprocess.Popen[bytes], rank: int, host: str, code: int | None, outcome: str
) -> None:
    hung = Peer(rank, 0, 0).heard(f'["{host}", {sleeper.pid}, 0, 0]'.encode(), 0)
    expected = f"rank {rank} (process {sleeper.pid} on {host}) has not answered for 10 s (--timeout): {outcome}"
    assert _end_peer(hung, 10) == expected
    if code is None:
        assert sleeper.poll() is None
    else:
        assert sleeper.wait(timeout=5) == code


STUBBORN_WORKER = """
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_loader_workers_of_a_hung_rank_are_killed() -> None:
    words, environment = [sys.executable, "-c", STUBBORN_WORKER], os.environ | {"RANK": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        worker = psutil.Process(int(process.stdout.readline()))
        _end_peer(Peer(1, 0, 0).heard(f'["{socket.gethostname()}", {process.pid}, 0, 0]'.encode(), 0), 10)
        wait_for_end(worker, 5)


def test_process_that_has_ended_is_reported(sleeper: subprocess.Popen[bytes]) -> None:
    hung = Peer(1, 0, 0).heard(f'["{socket.gethostname()}", {sleeper.pid}, 0, 0]'.encode(), 0)
    sleeper.kill()
    sleeper.wait()
    assert _end_peer(hung, 10).endswith(": it has ended")
