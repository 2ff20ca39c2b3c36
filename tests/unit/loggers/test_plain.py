"""Lines for files and pipes."""

import io

import pytest
from helpers.run_events import run_events, started

from accel_train.events import UpdateDone
from accel_train.loggers.plain import PlainLogger, QuietLogger


def lines_of_run(logger_class: type[PlainLogger | QuietLogger] = PlainLogger) -> list[str]:
    """Return the lines of a run."""
    stream = io.StringIO()
    logger = logger_class(stream)
    for event in run_events():
        logger(event)
    assert not set("\r\x1b") & set(stream.getvalue())
    return stream.getvalue().splitlines()


def test_epoch_is_one_line() -> None:
    assert (
        "epoch 1/2  train loss 0.4123  val loss 0.2780  val accuracy 0.9031  lr 0.05  2,912 images/s  21.0 s  best"
        in lines_of_run()
    )


def test_starts_with_banner_and_ends_with_next_command() -> None:
    lines = lines_of_run()
    assert lines[0] == "run            runs/digits-1"
    assert lines[-1] == "next           accel_train evaluate runs/digits-1"


def test_writes_a_line_per_tenth_of_the_run_except_at_ends_of_epochs() -> None:
    updates = [line.split("  ")[0] for line in lines_of_run() if line.startswith("update ")]
    assert updates == [f"update {n}/44" for n in (5, 9, 14, 18, 27, 31, 36, 40)]
    assert any("lr 0.3  local loss 0.3333" in line for line in lines_of_run())


def test_writes_a_line_every_thirty_seconds() -> None:
    stream = io.StringIO()
    now = 0.0
    logger = PlainLogger(stream, clock=lambda: now)
    logger(started(updates_per_epoch=1000, total_updates=2000))
    stream.truncate(0)
    for update in range(1, 101):
        now += 1.0
        logger(UpdateDone(1, update))
    assert [line.split("  ")[0].strip("\0") for line in stream.getvalue().splitlines()] == [
        "update 30/2,000",
        "update 60/2,000",
        "update 90/2,000",
    ]
    assert stream.getvalue().endswith("4 %  64 images/s\n")


def test_forced_colors_do_not_reach_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert len(lines_of_run()) > 20


def test_quiet_prints_one_line_at_the_end() -> None:
    assert lines_of_run(QuietLogger) == [
        "validation accuracy 0.9031, best 0.9031 in epoch 2, 2 epochs in 1:02 (all epochs done): runs/digits-1"
    ]
