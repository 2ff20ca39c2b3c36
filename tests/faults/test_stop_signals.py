"""A process receives signals and the death of its launcher, even while library code blocks its main thread."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGUSR1

import psutil
import pytest
from helpers.processes import SLOWER, Script, StartScript, scripts, wait_for_end

from accel_train.system.worker_signals import STOP_SIGNALS

PREPARE = """
import ctypes, os, signal, subprocess, sys, threading, time
from accel_train.system.signals import StopSignals, release
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # handlers say something, too: not print
def block_in_a_library():
    mutex = (ctypes.c_char * 64)()
    lock = ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)  # never returns, and is not woken by signals
def wait_for_reason():
    while not signals.reason:
        time.sleep(0.01)
    say(signals.reason.name, signals.reason.exit_code)
def listen(**given):
    return StopSignals(**{"poll_seconds": 0.05, "agreement_seconds": 60} | given).listen()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartScript]:
    """Return a function that starts a script with the functions above."""
    with scripts(tmp_path) as start:
        yield lambda script: start(PREPARE + script)


CODES = [(number, 128 + number) for number in STOP_SIGNALS]


@pytest.mark.parametrize(("number", "code"), CODES)
def test_signal_before_training_ends_process_at_once(start: StartScript, number: signal.Signals, code: int) -> None:
    process = start("signals = listen(); say('ready'); block_in_a_library()")
    process.prints("ready")
    process.send_signal(number)
    assert process.ends() == (code, f"ended by {number.name}, with nothing to save\n")


def test_only_rank_0_reports_that_it_ends_at_once(start: StartScript) -> None:
    process = start("signals = listen(rank=1); say('ready'); block_in_a_library()")
    process.prints("ready")
    process.send_signal(SIGTERM)
    assert process.ends() == (143, "")


def test_signal_after_training_ends_process_at_once(start: StartScript) -> None:
    process = start(
        "signals = listen(); signals.training_began(); signals.training_ended(); say('ready');block_in_a_library()"
    )
    process.prints("ready")
    process.send_signal(SIGTERM)
    assert process.ends() == (143, "ended by SIGTERM, with nothing to save\n")


TRAIN = "; signals.training_began(); say('ready'); wait_for_reason()\n"


@pytest.mark.parametrize(("number", "code"), CODES)
def test_first_reason_is_kept_during_training(start: StartScript, number: signal.Signals, code: int) -> None:
    process = start("signals = listen()" + TRAIN + "sys.stdin.readline(); wait_for_reason(); block_in_a_library()")
    process.prints("ready")
    process.send_signal(number)
    process.prints(f"{number.name} {code}")
    for later in {SIGTERM, SIGUSR1, SIGHUP} - {number}:
        process.send_signal(later)
    process.prints(f"{number.name} {code}")
    assert process.poll() is None


@pytest.mark.parametrize(("number", "code"), [(SIGINT, 130), (SIGQUIT, 131)])
def test_second_signal_of_a_terminal_ends_process_but_sigterm_does_not(
    start: StartScript, number: signal.Signals, code: int
) -> None:
    process = start("signals = listen(); signals.training_began(); say('ready'); block_in_a_library()")
    process.prints("ready")
    process.send_signal(number)
    time.sleep(0.2)
    process.send_signal(SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(number)
    assert process.ends() == (code, f"ended by a second {number.name} before it could save\n")


@pytest.mark.parametrize("number", [SIGHUP, SIGINT, SIGQUIT, SIGUSR1])
def test_signal_that_was_ignored_at_the_start_stays_so(start: StartScript, number: signal.Signals) -> None:
    process = start(f"signal.signal({number}, signal.SIG_IGN); signals = listen()" + TRAIN)
    process.prints("ready")
    process.send_signal(number)
    time.sleep(0.2)
    process.send_signal(SIGTERM)
    process.prints("SIGTERM 143")


def test_process_that_is_alone_waits_until_it_can_save(start: StartScript) -> None:
    process = start(
        "signals = listen(agreement_seconds=0.1); signals.training_began(alone=True); say('ready')\n"
        "wait_for_reason(); time.sleep(1); signals.acknowledged(); sys.exit(143)"
    )
    process.prints("ready")
    process.send_signal(SIGTERM)
    process.prints("SIGTERM 143")
    assert process.ends() == (143, "")


def test_process_that_waits_for_dead_rank_ends_at_its_deadline(start: StartScript) -> None:
    process = start(
        "signals = listen(rank=3, agreement_seconds=0.5); signals.training_began(); say('ready');block_in_a_library()"
    )
    process.prints("ready")
    began = time.monotonic()
    process.send_signal(SIGUSR1)
    assert process.ends() == (1, "rank 3 ended by SIGUSR1 before it could save\n")
    assert 0.5 <= time.monotonic() - began < 3 * SLOWER


def test_slow_updates_extend_the_deadline(start: StartScript) -> None:
    process = start(
        "signals = listen(agreement_seconds=0.1); signals.loop_seconds = 0.5\n"
        "signals.training_began(); say('ready'); block_in_a_library()"
    )
    process.prints("ready")
    began = time.monotonic()
    process.send_signal(SIGTERM)
    assert process.ends()[0] == 1
    assert time.monotonic() - began > 1.4


def test_wait_for_a_save_extends_the_deadline(start: StartScript) -> None:
    process = start(
        "signals = listen(rank=3, agreement_seconds=0.5); signals.training_began()\n"
        "with signals.saving():\n"
        "    say('ready'); wait_for_reason(); time.sleep(1.5); say('saved')\n"
        "block_in_a_library()"
    )
    process.prints("ready")
    process.send_signal(SIGTERM)
    process.prints("SIGTERM 143")
    process.prints("saved")
    began = time.monotonic()
    assert process.ends() == (1, "rank 3 ended by SIGTERM before it could save\n")
    assert time.monotonic() - began >= 0.4


def test_suspension_counts_for_no_deadline(start: StartScript) -> None:
    process = start(
        "from accel_train.system import signals as module; module._ASLEEP_SECONDS = 1\n"
        "signals = listen(agreement_seconds=1.5); signals.training_began(); say('ready'); wait_for_reason()\n"
        "time.sleep(0.8); signals.acknowledged(); say('agreed'); sys.exit(143)"
    )
    process.prints("ready")
    process.send_signal(SIGTERM)
    process.prints("SIGTERM 143")
    process.send_signal(SIGSTOP)
    time.sleep(2)
    process.send_signal(SIGCONT)
    process.prints("agreed")
    assert process.ends() == (143, "")


@pytest.mark.parametrize("signal_first", [True, False])
def test_saving_has_no_deadline_once_ranks_have_agreed(start: StartScript, signal_first: bool) -> None:
    agree = "signals.acknowledged()"
    first, last = ("", agree) if signal_first else (agree, "")  # another rank may receive the signal first
    process = start(
        f"signals = listen(agreement_seconds=0.3); signals.training_began(); {first}\n"
        f"say('ready'); wait_for_reason(); {last}\n"
        "time.sleep(1); say('saved'); sys.exit(7)"
    )
    process.prints("ready")
    process.send_signal(SIGTERM)
    process.prints("SIGTERM 143")
    process.prints("saved")
    assert process.ends() == (7, "")


LAUNCH = """
script = {script!r}
child = subprocess.Popen([sys.executable, "-c", {prepare!r} + script, str(os.getpid())])
child.wait()
"""


def launched(start: StartScript, script: str) -> tuple[Script, psutil.Process]:
    """Start a script from another process; return both processes once the script is ready."""
    parent = start(LAUNCH.format(script=script, prepare=PREPARE))
    parent.prints("ready")
    return parent, psutil.Process(parent.pid).children()[0]


FOLLOW = "signals = listen(launcher=int(sys.argv[1]), agreement_seconds=1, rank=2); "


def test_death_of_launcher_is_a_reason_like_a_signal(start: StartScript) -> None:
    parent, child = launched(
        start, FOLLOW + "signals.training_began(); say('ready'); wait_for_reason(); time.sleep(60)"
    )
    began = time.monotonic()
    parent.kill()
    parent.prints("the death of its launcher 143")
    assert parent.ends() == (-9, "rank 2 ended by the death of its launcher before it could save\n")
    wait_for_end(child, 1)
    assert 1 <= time.monotonic() - began < 4 * SLOWER


@pytest.mark.parametrize(
    "unlimited", ["signals.training_began()\nsignals.acknowledged()", "signals.training_began(alone=True)"]
)
def test_process_whose_launcher_has_died_takes_its_time_to_save(start: StartScript, unlimited: str) -> None:
    script = FOLLOW + unlimited + "\nsay('ready'); wait_for_reason(); time.sleep(2); say('saved')"
    parent, child = launched(start, script)
    parent.kill()
    parent.prints("the death of its launcher 143")
    parent.prints("saved")
    wait_for_end(child, 2)


def test_death_of_launcher_before_training_ends_process_at_once(start: StartScript) -> None:
    parent, child = launched(start, FOLLOW + "say('ready'); block_in_a_library()")
    parent.kill()
    wait_for_end(child, 3)
    assert parent.ends() == (-9, "")


def test_launcher_that_died_before_listening_is_noticed(start: StartScript) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    process = start(f"signals = listen(launcher={gone.pid}); time.sleep(60)")
    assert process.ends() == (143, "ended by the death of its launcher, with nothing to save\n")


def test_death_of_parent_that_is_no_launcher_is_ignored(start: StartScript) -> None:
    parent, child = launched(start, "signals = listen(); say('ready'); time.sleep(1.5); say('still running')")
    parent.kill()
    parent.prints("still running")
    wait_for_end(child, 5)


def test_other_signals_are_no_reason(start: StartScript) -> None:
    process = start(
        "signal.signal(signal.SIGCHLD, lambda *_: say('child'));"
        "signals = listen(); subprocess.run(['true']); time.sleep(0.3); say('here')"
    )
    process.prints("child")
    process.prints("here")
    assert process.ends() == (0, "")


def test_release_leaves_signals_and_launcher_to_the_caller(start: StartScript) -> None:
    process = start(
        "signals = listen(launcher=1); taken = [];"
        "signal.signal(signal.SIGTERM, lambda *_: taken.append(say('taken over'))); release(); time.sleep(0.2);"
        "say(threading.active_count())\n"
        "while not taken: time.sleep(0.01)\n"
        "time.sleep(1); say('here')"
    )
    process.prints("1")
    process.send_signal(SIGTERM)
    process.prints("taken over")
    process.prints("here")
    assert process.ends() == (0, "")


def test_ctrl_c_during_imports_shows_no_traceback() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "accel_train", "train", "--help"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert any("accel_train.errors" in line for line in process.stderr)  # the first of many imports
        process.send_signal(SIGINT)
        _, err = process.communicate(timeout=20 * SLOWER)
    assert process.returncode in (-SIGINT, 130)
    assert "Traceback" not in err
