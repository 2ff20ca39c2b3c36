"""Signals, dead and hanging ranks, a second run and divergence: each ends a run soon, with its own code and words."""

import os
import signal
from pathlib import Path

import pytest
from fault_helpers import TINY, Program, finished, lives, started, wait_until

ENDLESS = (*TINY, "--epochs", "100000", "--save-every", "1000000updates")
CODES = {signal.SIGTERM: 143, signal.SIGUSR1: 138, signal.SIGINT: 130}


def wait_for_epoch(program: Program) -> None:
    program.wait_for(lambda: "\nepoch " in program.out)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_signal_saves_and_ends_a_run_that_then_goes_on(processes: int, tmp_path: Path) -> None:
    words = ("--output", tmp_path / "run", "--processes", str(processes), *ENDLESS)
    saved = 0
    for number, code in CODES.items():
        with started(tmp_path, *words) as program:
            wait_for_epoch(program)
            assert program.resumed() == saved
            os.kill(program.pid, number)
            assert program.wait(10) == code, program.out + program.err
        assert program.saved() > saved
        assert "stopped by" in program.out
        assert "Traceback" not in program.err
        saved = program.saved()
    with started(tmp_path, *words) as program:
        program.wait_for(lambda: program.resumed() == saved)


def test_a_killed_rank_is_named_and_ends_the_run(tmp_path: Path) -> None:
    with started(tmp_path, "--output", tmp_path / "run", "--processes", "2", *ENDLESS) as program:
        wait_for_epoch(program)
        program.ranks()[1].kill()
        assert program.wait(15) != 0
    assert "rank 1" in program.err
    assert "SIGKILL" in program.err


def test_a_rank_that_hangs_is_named_and_ends_the_run(tmp_path: Path) -> None:
    words = ("--output", tmp_path / "run", "--processes", "2", "--timeout", "5", *ENDLESS)
    with started(tmp_path, *words) as program:
        wait_for_epoch(program)
        program.ranks()[1].suspend()
        assert program.wait(20) != 0
    assert "rank 1 (process" in program.err


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    words = ("--output", tmp_path / "run", *ENDLESS)
    with started(tmp_path, *words) as first:
        wait_for_epoch(first)
        second = finished(tmp_path, *words, code=2)
        assert "another run" in second.err
        wait_until(lambda: first.out.count("\nepoch ") > 1, 10)
        assert all(map(lives, first.tree()))


def test_divergence_ends_a_run_as_an_error(tmp_path: Path) -> None:
    with started(tmp_path, "--output", tmp_path / "run", "--lr", "1e30", *TINY, "--epochs", "3") as program:
        assert program.wait() != 0
    errors = [line for line in program.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, program.err
    assert "not finite" in errors[0]
