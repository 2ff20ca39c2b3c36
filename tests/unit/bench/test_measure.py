"""Medians over rounds, and the errors of subprocesses."""

import io
import os
import threading
from dataclasses import replace
from typing import Any

import pytest
from helpers.bench_rows import MEASUREMENT, SETTING

from accel_train.bench import measure as module
from accel_train.bench.measure import OutOfMemory, Workload, measure, peak_memory
from accel_train.errors import UserError

WORKLOAD = Workload("digits", "cnn", "none")


def replace_runs(monkeypatch: pytest.MonkeyPatch, ours: list[float], bare: list[float]) -> None:
    """Replace the subprocesses by these images/s, one per round."""
    runs, loops = iter(ours), iter(bare)
    monkeypatch.setattr(module, "_train", lambda *_: (replace(MEASUREMENT, images_per_second=next(runs)), None))
    monkeypatch.setattr(module, "_bare", lambda *_: next(loops))


def test_row_holds_medians_and_the_median_of_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_runs(monkeypatch, ours=[100.0, 300.0, 200.0], bare=[100.0, 400.0, 400.0])
    row = measure(WORKLOAD, SETTING, against_bare=True, rounds=3)
    assert row.measurement == replace(MEASUREMENT, images_per_second=200.0)
    assert (row.bare_images_per_second, row.ratio_to_bare) == (400.0, 0.75)


def test_bare_loop_runs_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_runs(monkeypatch, ours=[100.0], bare=[])
    row = measure(WORKLOAD, SETTING, against_bare=False, rounds=1)
    assert (row.bare_images_per_second, row.ratio_to_bare, row.failure) == (None, None, None)


def test_out_of_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OutOfMemory

    monkeypatch.setattr(module, "_train", fail)
    assert measure(WORKLOAD, SETTING, against_bare=True, rounds=1).failure == "out of memory"


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        (2, "error: rank 1 is out of memory with --batch-size 4096\nhint: choose a smaller one\n"),
        (2, "error: rank 0 is out of GPU memory with --batch-size 4096\nhint: choose a smaller one\n"),
        (1, "rank 1 was killed by SIGKILL\n"),
        (-9, ""),
        (137, ""),
    ],
)
def test_failure_is_recognised_as_out_of_memory(code: int, stderr: str) -> None:
    assert isinstance(module._failure(code, io.StringIO(stderr)), OutOfMemory)


@pytest.mark.parametrize(
    ("stderr", "message", "hint"),
    [
        ("noise\nerror: unknown model x\nhint: did you mean y?\n", "unknown model x", "did you mean y?"),
        ("Traceback\nValueError: x\n", "a run ended with exit code 1: ValueError: x", "run accel_train train with"),
        ("", "a run ended with exit code 1: no output on stderr", "run accel_train train with"),
    ],
)
def test_failure_repeats_the_error_of_the_run(stderr: str, message: str, hint: str) -> None:
    failure = module._failure(1, io.StringIO(stderr))
    assert isinstance(failure, UserError)
    assert failure.message == message
    assert failure.hint.startswith(hint)


def test_shares_are_means_over_ranks() -> None:
    shares = module._shares([{"forward": 1.0, "other": 1.0}, {"forward": 3.0, "other": 1.0}])
    assert shares == {"forward": 0.625, "other": 0.375}


def test_peak_memory_is_that_of_the_process_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_SAMPLES", 0.01)
    done = threading.Event()
    threading.Timer(0.2, done.set).start()
    assert 2**20 < peak_memory(os.getpid(), done) < 2**36
