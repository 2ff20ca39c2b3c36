"""Loader workers ignore signals that are meant for their parent, and end with it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGTERM, SIGUSR1

import psutil
import pytest
from helpers.processes import StartScript, scripts, wait_for_end

WORKER = """
import multiprocessing, sys, time
from accel_train.system.signals import StopSignals
from accel_train.system.worker_signals import serve_parent
def say(*words):
    print(*words, flush=True)
signals = StopSignals(poll_seconds=0.05, agreement_seconds=60).listen()
signals.training_began()
def work():
    serve_parent(0)
    say('works')
    time.sleep(60)
worker = multiprocessing.get_context('fork').Process(target=work, daemon=True)
worker.start()
"""
WAIT_FOR_REASON = """
while not signals.reason:
    time.sleep(0.01)
say(signals.reason.name, signals.reason.exit_code)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartScript]:
    """Return a function that starts a script with a loader worker."""
    with scripts(tmp_path) as start:
        yield lambda script: start(WORKER + script)


@pytest.mark.parametrize("number", [SIGTERM, SIGUSR1, SIGINT])
def test_signal_to_every_process_does_not_end_loader_worker(start: StartScript, number: signal.Signals) -> None:
    process = start(WAIT_FOR_REASON + "time.sleep(0.3); say(worker.is_alive()); sys.exit(7)")
    process.prints("works")
    for child in psutil.Process(process.pid).children():
        child.send_signal(number)
    os.killpg(process.pid, number)
    process.prints(f"{number.name} {128 + number}")
    process.prints("True")
    assert process.ends() == (7, "")


def test_signal_to_loader_worker_does_not_reach_its_parent(start: StartScript) -> None:
    process = start("time.sleep(1); worker.terminate(); worker.join(); time.sleep(0.3); say(signals.reason)")
    process.prints("works")
    process.prints("None")
    assert process.ends() == (0, "")


def test_cpu_limit_of_a_loader_worker_is_told_to_its_parent(start: StartScript) -> None:
    process = start(WAIT_FOR_REASON + "say(worker.is_alive()); sys.exit(7)")
    process.prints("works")
    (worker,) = psutil.Process(process.pid).children()
    worker.send_signal(signal.SIGXCPU)
    process.prints("SIGXCPU 152")
    process.prints("True")
    assert process.ends() == (7, "")


def test_loader_worker_ends_with_process_that_ends_at_once(start: StartScript) -> None:
    process = start("signals.training_ended(); time.sleep(60)")
    process.prints("works")
    (worker,) = psutil.Process(process.pid).children()
    process.send_signal(SIGTERM)
    assert process.ends()[0] == 143
    wait_for_end(worker, 1)
