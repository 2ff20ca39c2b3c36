"""A process hears signals and the death of its launcher, also while it sits in a library's code."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGTERM, SIGUSR1

import psutil
import pytest
from helpers.processes import wait_for_end

PREPARE = """
import ctypes, multiprocessing, os, signal, subprocess, sys, threading, time
from accel_train.system.signals import Interruption, release
from accel_train.system.worker_signals import serve_parent
def say(*words):
    print(*words, flush=True)
def sit_in_a_library():
    mutex = (ctypes.c_char * 64)()
    lock = ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)  # never returns, and is not woken by signals
def ask():
    while not interruption.reason:
        time.sleep(0.01)
    say(interruption.reason.name, interruption.reason.exit_code)
def make(**given):
    return Interruption(**{"poll_seconds": 0.05, "agreement_seconds": 60, "orphan_seconds": 60} | given)
"""
Start = Callable[[str], "Process"]


class Process(subprocess.Popen[str]):
    """A script whose answers are awaited line by line."""

    def says(self, line: str) -> None:
        assert self.stdout
        assert self.stdout.readline().rstrip() == line

    def ends(self, seconds: float = 10) -> tuple[int, str]:
        """Return exit code and stderr."""
        _, err = self.communicate(timeout=seconds)
        return self.returncode, err


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that runs a script; what it started is killed afterwards."""
    started: list[Process] = []

    def run(script: str) -> Process:
        words = [sys.executable, "-c", PREPARE + script]
        pipe = subprocess.PIPE
        started.append(Process(words, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        for one in (*psutil.Process(process.pid).children(recursive=True), process) if process.poll() is None else ():
            one.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # whose parent is dead
        process.communicate()


CODES = [(SIGTERM, 143), (SIGUSR1, 138), (SIGINT, 130)]


@pytest.mark.parametrize(("number", "code"), CODES)
def test_with_nothing_to_save_a_signal_ends_the_process_at_once(
    start: Start, number: signal.Signals, code: int
) -> None:
    process = start("interruption = make(); say('ready'); sit_in_a_library()")
    process.says("ready")
    process.send_signal(number)
    assert process.ends() == (code, f"ended by {number.name}, with nothing to save\n")


def test_only_rank_0_says_that_it_ends_at_once(start: Start) -> None:
    process = start("interruption = make(rank=1); say('ready'); sit_in_a_library()")
    process.says("ready")
    process.send_signal(SIGTERM)
    assert process.ends() == (143, "")


def test_after_training_a_signal_ends_the_process_at_once(start: Start) -> None:
    process = start(
        "interruption = make(); interruption.training_began(); interruption.training_ended(); say('ready');"
        "sit_in_a_library()"
    )
    process.says("ready")
    process.send_signal(SIGTERM)
    assert process.ends() == (143, "ended by SIGTERM, with nothing to save\n")


TRAIN = "; interruption.training_began(); say('ready'); ask()\n"


@pytest.mark.parametrize(("number", "code"), CODES)
def test_in_training_the_first_reason_is_kept(start: Start, number: signal.Signals, code: int) -> None:
    process = start("interruption = make()" + TRAIN + "sys.stdin.readline(); ask(); sit_in_a_library()")
    process.says("ready")
    process.send_signal(number)
    process.says(f"{number.name} {code}")
    for later in {SIGTERM, SIGUSR1} - {number}:
        process.send_signal(later)
    process.says(f"{number.name} {code}")
    assert process.poll() is None


def test_a_second_sigint_ends_the_process_and_a_launchers_sigterm_does_not(start: Start) -> None:
    process = start("interruption = make(); interruption.training_began(); say('ready'); sit_in_a_library()")
    process.says("ready")
    process.send_signal(SIGINT)
    time.sleep(0.2)
    process.send_signal(SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(SIGINT)
    assert process.ends() == (130, "ended by a second SIGINT before it could save\n")


def test_a_process_that_waits_for_a_dead_peer_ends_after_a_while(start: Start) -> None:
    process = start(
        "interruption = make(rank=3, agreement_seconds=0.5); interruption.training_began(); say('ready');"
        "sit_in_a_library()"
    )
    process.says("ready")
    began = time.monotonic()
    process.send_signal(SIGUSR1)
    assert process.ends() == (138, "rank 3 ended by SIGUSR1 before it could save\n")
    assert 0.5 <= time.monotonic() - began < 3


def test_where_updates_are_slow_there_is_more_time_to_agree(start: Start) -> None:
    process = start(
        "interruption = make(agreement_seconds=0.1); interruption.loop_seconds = 0.5\n"
        "interruption.training_began(); say('ready'); sit_in_a_library()"
    )
    process.says("ready")
    began = time.monotonic()
    process.send_signal(SIGTERM)
    assert process.ends()[0] == 143
    assert time.monotonic() - began > 1.4


@pytest.mark.parametrize("heard_first", [True, False])
def test_saving_may_take_its_time(start: Start, heard_first: bool) -> None:
    agree = "interruption.acknowledged()"
    first, last = (agree, "") if not heard_first else ("", agree)  # the signal of another rank may be faster
    process = start(
        f"interruption = make(agreement_seconds=0.3); interruption.training_began(); {first}\n"
        f"say('ready'); ask(); {last}\n"
        "time.sleep(1); say('saved'); sys.exit(7)"
    )
    process.says("ready")
    process.send_signal(SIGTERM)
    process.says("SIGTERM 143")
    process.says("saved")
    assert process.ends() == (7, "")


LAUNCH = """
script = {script!r}
child = subprocess.Popen([sys.executable, "-c", {prepare!r} + script, str(os.getpid())])
child.wait()
"""


def launched(start: Start, script: str) -> tuple[Process, psutil.Process]:
    """Start a script by another process; return that one and, once it says so, the script's own."""
    parent = start(LAUNCH.format(script=script, prepare=PREPARE))
    parent.says("ready")
    return parent, psutil.Process(parent.pid).children()[0]


FOLLOW = "interruption = make(launcher=int(sys.argv[1]), orphan_seconds=1, rank=2); "


def test_the_death_of_the_launcher_is_a_reason_with_a_hard_limit(start: Start) -> None:
    script = FOLLOW + "interruption.training_began(); say('ready'); ask(); interruption.acknowledged(); time.sleep(60)"
    parent, child = launched(start, script)
    began = time.monotonic()
    parent.kill()
    parent.says("the death of its launcher 143")
    assert parent.ends() == (-9, "rank 2 ended by the death of its launcher before it could save\n")
    wait_for_end(child, 1)
    assert 1 <= time.monotonic() - began < 4


def test_with_nothing_to_save_the_death_of_the_launcher_ends_the_process(start: Start) -> None:
    parent, child = launched(start, FOLLOW + "say('ready'); sit_in_a_library()")
    parent.kill()
    wait_for_end(child, 3)
    assert parent.ends() == (-9, "")


def test_a_launcher_that_died_before_anybody_looked_is_missed(start: Start) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    process = start(f"interruption = make(launcher={gone.pid}); time.sleep(60)")
    assert process.ends() == (143, "ended by the death of its launcher, with nothing to save\n")


def test_without_a_launcher_the_death_of_the_parent_is_nothing(start: Start) -> None:
    parent, child = launched(start, "interruption = make(); say('ready'); time.sleep(1.5); say('still here')")
    parent.kill()
    parent.says("still here")
    wait_for_end(child, 5)


WORKER = """
interruption = make()
interruption.training_began()
def work():
    serve_parent(0)
    say('works')
    time.sleep(60)
worker = multiprocessing.get_context('fork').Process(target=work, daemon=True)
worker.start()
"""


@pytest.mark.parametrize("number", [SIGTERM, SIGUSR1, SIGINT])
def test_a_signal_to_every_process_does_not_end_a_loader_worker(start: Start, number: signal.Signals) -> None:
    process = start(WORKER + "ask(); time.sleep(0.3); say(worker.is_alive()); sys.exit(7)")
    process.says("works")
    for child in psutil.Process(process.pid).children():
        child.send_signal(number)
    os.killpg(process.pid, number)
    process.says(f"{number.name} {128 + number}")
    process.says("True")
    assert process.ends() == (7, "")


def test_a_signal_to_a_loader_worker_is_not_taken_for_one_to_its_parent(start: Start) -> None:
    end = "time.sleep(1); worker.terminate(); worker.join(); time.sleep(0.3); say(interruption.reason)"
    process = start(WORKER + end)
    process.says("works")
    process.says("None")
    assert process.ends() == (0, "")


def test_loader_workers_end_with_a_process_that_ends_at_once(start: Start) -> None:
    process = start(WORKER + "interruption.training_ended(); sit_in_a_library()")
    process.says("works")
    (worker,) = psutil.Process(process.pid).children()
    process.send_signal(SIGTERM)
    assert process.ends()[0] == 143
    wait_for_end(worker, 1)


def test_other_signals_that_python_handles_are_no_reason(start: Start) -> None:
    process = start(
        "signal.signal(signal.SIGCHLD, lambda *_: say('child'));"
        "interruption = make(); subprocess.run(['true']); time.sleep(0.3); say('here')"
    )
    process.says("child")
    process.says("here")
    assert process.ends() == (0, "")


def test_who_takes_the_signals_over_is_left_alone(start: Start) -> None:
    process = start(
        "interruption = make(launcher=1); "
        "signal.signal(signal.SIGTERM, lambda *_: say('taken over')); release(); time.sleep(0.2);"
        "say(threading.active_count()); time.sleep(1); say('here')"
    )
    process.says("1")
    process.send_signal(SIGTERM)
    process.says("taken over")
    process.says("here")
    assert process.ends() == (0, "")


def test_ctrl_c_while_the_program_is_loaded_shows_no_traceback() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "accel_train", "train", "--help"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert any("accel_train.errors" in line for line in process.stderr)  # the first of many to come
        process.send_signal(SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode in (-SIGINT, 130)
    assert "Traceback" not in err
