"""No process outlives its run, however the run ends, and the exit code and output tell how it ended."""

import atexit
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.faults import TINY, Program, started
from helpers.runner import Runner
from PIL import Image

from accel_train.system.process import exit_at_once

SECONDS_TO_STOP = 10
"""Less than the 30 after which the parent kills: processes must end by themselves."""


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start `accel_train train --processes 2` with more epochs than anyone waits for, and return it in training."""
    with ExitStack() as programs:

        def start(forked: bool = True) -> Program:
            words = ("--output", tmp_path / "out", *TINY, "--epochs", "1000000")
            program = programs.enter_context(started(tmp_path, *words, processes=2, forked=forked))
            program.wait_for_epoch()
            assert len(program.ranks()) == 2
            return program

        yield start


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_signal_to_the_parent_ends_all(endless: Callable[..., Program], number: signal.Signals, code: int) -> None:
    program = endless(forked=number != signal.SIGTERM)
    os.kill(program.pid, number)
    assert program.wait(SECONDS_TO_STOP) == code, program.err
    assert "Traceback" not in program.err
    assert "terminate called" not in program.err
    assert "of 2 " not in program.err  # none was killed
    assert "another rank" not in program.err  # none lost a peer


def test_signal_reaches_a_rank_that_is_suspended(endless: Callable[..., Program]) -> None:
    program = endless()
    program.ranks()[1].suspend()
    os.kill(program.pid, signal.SIGTERM)
    assert program.wait(SECONDS_TO_STOP) == 143, program.err
    assert f"after update {program.saved():,} (saved)" in program.out


def test_killed_parent_ends_its_ranks(endless: Callable[..., Program]) -> None:
    program = endless()
    program.process.kill()
    assert program.wait(8) == -signal.SIGKILL
    assert "Traceback" not in program.err


def test_killed_rank_is_named_and_fails_the_run(endless: Callable[..., Program]) -> None:
    program = endless()
    program.ranks()[1].kill()
    assert program.wait(15) == 128 + signal.SIGKILL, program.err  # the first failure's, not that of those who lost it
    assert "rank 1 of 2 was killed by SIGKILL\n" in program.err
    assert "rank 0 of 2" not in program.err  # it noticed in time
    assert "Traceback" not in program.err


def test_two_processes_end_soon_after_their_last_line_without_warnings(run: Runner) -> None:
    words = [sys.executable, "-m", "accel_train", "train", *TINY, "--processes", "2", "--epochs", "1"]
    words += ["--no-report", "--output", str(run.folder / "out")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        last_line = [time.monotonic() for _ in process.stdout][-1]
        err = process.stderr.read()
        assert process.wait(timeout=15) == 0, err
        assert time.monotonic() - last_line < 15
    assert "destroy_process_group" not in err
    assert "terminate called" not in err
    assert "[W" not in err
    assert "warning" not in err.lower()


def test_unreadable_picture_on_one_rank_is_one_error(run: Runner) -> None:
    for name, colour in {"a": "red", "b": "blue"}.items():
        for split, count in {"train": 16, "val": 2}.items():
            (run.folder / "pictures" / split / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (32, 32), colour).save(run.folder / "pictures" / split / name / f"{number}.jpg")
    broken = run.folder / "pictures" / "train" / "a" / "7.jpg"
    broken.write_bytes(broken.read_bytes()[:-200])
    ended = run("train", "--data", "pictures", "--batch-size", "8", "--epochs", "1", processes=2)
    assert ended.code == 2
    errors = [line for line in ended.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "7.jpg" in errors[0]
    assert ended.err.count("hint:") == 1
    assert "Traceback" not in ended.err


def test_exit_at_once_skips_the_interpreters_shutdown() -> None:
    child = os.fork()
    if child == 0:
        atexit.register(os._exit, 1)
        exit_at_once(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
