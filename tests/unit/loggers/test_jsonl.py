"""Records for programs and the logs of each process."""

import io
import json
import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.run_events import ENDED, STARTED, epoch_end, run_events

from accel_train.events import EpochEnd, Event, Progress, RunEnded, RunStarted, as_record
from accel_train.loggers.jsonl import JsonLines
from accel_train.loggers.rank_log import RankLogSink, start_logging

KINDS: tuple[type[Event], ...] = (RunStarted, Progress, EpochEnd, RunEnded)


@pytest.fixture
def log_path(tmp_path: Path) -> Iterator[Path]:
    """Give a place for a log, and take back what :func:`start_logging` changes in this process."""
    root, package = logging.getLogger(), logging.getLogger("accel_train")
    handlers, levels = root.handlers[:], (root.level, package.level)
    root.handlers.clear()
    yield tmp_path / "log" / "rank.log"
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    package.setLevel(levels[1])
    logging.captureWarnings(False)


def test_records_are_json_lines_of_unrounded_numbers() -> None:
    stream = io.StringIO()
    sink = JsonLines(stream, KINDS)
    for event in run_events():
        sink(event)
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    kinds = ["run", "progress", "progress", "epoch", "progress", "progress", "epoch", "end"]
    assert [record["kind"] for record in records] == kinds
    assert records[1]["lr"] == 0.1 + 0.2
    assert records[1]["local_loss"] == 1 / 3
    assert records[0] == {**as_record(STARTED), "matches": list(STARTED.matches)}
    assert records[-1] == as_record(ENDED)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_lacks_is_null(value: float) -> None:
    stream = io.StringIO()
    JsonLines(stream, KINDS)(replace(epoch_end(1), val_loss=value))
    assert json.loads(stream.getvalue(), parse_constant=pytest.fail)["val_loss"] is None


def test_the_log_file_has_each_progress_in_full(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(log_path, rank=0, world_size=2, device="cpu", console_level=logging.INFO)
    sink = RankLogSink(rank=0)
    for event in run_events():
        sink(event)
    assert log_path.read_text().splitlines()[:4] == [
        "runs on cpu, 1 thread",
        "update 10 lr 0.30000000000000004 local_loss 0.3333333333333333 local_ids_hash 0x1f",
        "update 20 lr 0.30000000000000004 local_loss 0.3333333333333333 local_ids_hash 0x1f",
        "epoch 1  local loss 0.3333 at update 20",
    ]
    assert capsys.readouterr().err == ""


def test_other_ranks_say_a_prefixed_line_an_epoch(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(log_path, rank=1, world_size=2, device="cpu", console_level=logging.INFO)
    sink = RankLogSink(rank=1)
    for event in run_events():
        sink(event)
    assert capsys.readouterr().err.splitlines() == [
        "[rank 1/2 cpu] runs on cpu, 1 thread",
        "[rank 1/2 cpu] epoch 1  local loss 0.3333 at update 20",
        "[rank 1/2 cpu] epoch 2  local loss 0.3333 at update 40",
    ]
    assert "[rank" not in log_path.read_text()


def test_a_record_of_several_lines_is_one_write(log_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[str] = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", writes.append)
    monkeypatch.setattr("sys.stderr", stream)
    start_logging(log_path, rank=1, world_size=2, device="cpu", console_level=logging.INFO)
    logging.getLogger("accel_train.training.loop").error("first\nsecond")
    assert writes == ["[rank 1/2 cpu] error: first\n[rank 1/2 cpu] second\n"]


def test_other_ranks_clear_a_bar_on_the_same_terminal(log_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    for rank in (0, 1):
        start_logging(log_path, rank, world_size=2, device="cpu", console_level=logging.INFO)
        logging.getLogger("accel_train").info("hello")
    assert stream.getvalue() == "hello\n\r\x1b[2K[rank 1/2 cpu] hello\n"


def test_warnings_and_library_records_go_the_same_way(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        start_logging(log_path, rank=0, world_size=1, device="cpu", console_level=logging.INFO)
        warnings.warn("careful", UserWarning, stacklevel=1)
        logging.getLogger("some_library").warning("odd")
        logging.getLogger("some_library").info("chatter")
        logging.captureWarnings(False)
    lines = log_path.read_text().splitlines()
    assert lines[0].startswith("warning: ")
    assert lines[0].endswith("UserWarning: careful")
    assert lines[-1] == "warning: odd"
    assert capsys.readouterr().err == log_path.read_text()
