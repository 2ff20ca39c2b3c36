"""Lines for files and pipes."""

import io
from contextlib import nullcontext

import pytest
from helpers.run_events import run_events, started

from accel_train.events import Notice, ReportWritten, Resumed, UpdateDone
from accel_train.loggers.plain import PlainLogger, QuietLogger


def lines_of_run(logger_class: type[PlainLogger | QuietLogger] = PlainLogger) -> list[str]:
    """Return the lines of a run."""
    stream = io.StringIO()
    logger = logger_class(stream)
    with logger if isinstance(logger, PlainLogger) else nullcontext():
        for event in (*run_events(), ReportWritten("runs/digits-1/report.html")):
            logger(event)
    assert not set("\r\x1b") & set(stream.getvalue())
    return stream.getvalue().splitlines()


def test_epoch_is_one_line() -> None:
    results = "train loss 0.4123  val loss 0.2780  val accuracy 0.9031  lr 0.05  2,912 images/s  21.0 s  best"
    assert f"epoch 1/2  {results}  0 s left" in lines_of_run()


def test_lines_of_the_ranks_come_before_that_of_the_epoch() -> None:
    lines = lines_of_run()
    epoch = next(number for number, line in enumerate(lines) if line.startswith("epoch 2/2"))
    assert lines[epoch - 2 : epoch] == [
        "[rank 0/2 cpu] epoch 2/2  loss 0.2000 over 704 images  1,456 images/s  weights 8f3a19c2",
        "[rank 1/2 cpu] epoch 2/2  loss 0.2123 over 704 images  1,456 images/s  weights 8f3a19c2",
    ]
    assert "[rank 1/2 cpu] gloo, host node1, process 4712, 1 thread" in lines


def test_resumed_run_counts_its_time_from_the_start() -> None:
    stream = io.StringIO()
    now = 0.0
    logger = PlainLogger(stream, clock=lambda: now)
    for event in (started(updates_per_epoch=1000, total_updates=2000), Resumed(1, 500, 600.0)):
        logger(event)
    for update in range(501, 532):
        now += 1.0
        logger(UpdateDone(1, update))
    assert "resumed at epoch 1 of 2, update 500" in stream.getvalue().splitlines()
    assert stream.getvalue().endswith("64 images/s  11 min, 24 min left\n")


def test_starts_with_banner_and_ends_with_next_command() -> None:
    lines = lines_of_run()
    assert lines[0] == "run            runs/digits-1"
    assert lines[-3:] == [
        "files          runs/digits-1",
        "report         runs/digits-1/report.html",
        "next           accel_train predict runs/digits-1 PICTURES",
    ]


def test_next_command_comes_after_notes_on_a_run_without_report() -> None:
    stream = io.StringIO()
    with PlainLogger(stream) as logger:
        for event in (*run_events(), Notice("try more images")):
            logger(event)
    assert stream.getvalue().splitlines()[-2:] == [
        "note: try more images",
        "next           accel_train report runs/digits-1",
    ]


def test_run_that_has_not_finished_has_no_next_command() -> None:
    stream = io.StringIO()
    with PlainLogger(stream) as logger:
        logger(started())
    assert "\nnext " not in stream.getvalue()


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
    assert stream.getvalue().endswith("4 %  64 images/s  1 min 30 s, 32 min left\n")


def test_forced_colors_do_not_reach_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert len(lines_of_run()) > 20


def test_quiet_prints_one_line_at_the_end() -> None:
    assert lines_of_run(QuietLogger) == [
        "validation accuracy 0.9031, best 0.9031 in epoch 2, 2 epochs in 1 min 2 s (all epochs done): runs/digits-1"
    ]
