"""Which loggers a process opens."""

import io
import json
import sys
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from helpers.run_events import STARTED, run_events, started

from accel_train.events import Event, Resumed, Stopped
from accel_train.loggers import select
from accel_train.loggers.plain import PlainLogger, QuietLogger
from accel_train.loggers.select import LOGGERS, Logger, Process, Row, console_logger, logged
from accel_train.loggers.terminal import TerminalLogger


@pytest.fixture(autouse=True)
def _logging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "start_logging", lambda started, rank: None)  # which lasts beyond a test


def log_run(
    folder: Path,
    *events: Event,
    rank: int = 0,
    quiet: bool = False,
    json: bool = False,
    only: tuple[str, ...] | None = None,
) -> list[str]:
    """Log a run's events and return the names of its loggers."""
    begin = started(run_folder=str(folder))
    names: list[str] = []
    opened = {
        name: Row(row.wanted, lambda begin, process, row=row: noted(row.open(begin, process), names))
        for name, row in LOGGERS.items()
    }
    expected = [begin, *(events or run_events()[1:])]
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(select, "LOGGERS", opened)
        assert list(logged((event for event in expected), rank=rank, quiet=quiet, json=json, only=only)) == expected
    return names


@contextmanager
def noted(opening: AbstractContextManager[Logger], names: list[str]) -> Iterator[Logger]:
    with opening as logger:
        names.append(type(logger).__name__)
        yield logger


def kinds(lines: str) -> list[str]:
    return [json.loads(line)["kind"] for line in lines.splitlines()]


def test_only_rank_0_writes_metrics_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert log_run(tmp_path, rank=1) == ["RankLogger"]
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    assert log_run(tmp_path, rank=0) == ["RankLogger", "JsonLines", "PlainLogger"]


def test_only_the_loggers_asked_for_are_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert log_run(tmp_path, only=("metrics.jsonl",)) == ["JsonLines"]
    assert capsys.readouterr() == ("", "")
    assert len(kinds((tmp_path / "metrics.jsonl").read_text())) == 10


def test_run_record_is_written_only_to_an_empty_file(tmp_path: Path) -> None:
    log_run(tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    once = ["run", *2 * ("progress", "progress", "epoch_by_rank", "epoch"), "end"]
    assert kinds(metrics.read_text()) == once
    log_run(tmp_path, Resumed(2, 44, 60.0), *run_events()[-3:])
    assert kinds(metrics.read_text()) == [*once, "epoch_by_rank", "epoch", "end"]
    metrics.write_text("")
    log_run(tmp_path)
    assert kinds(metrics.read_text()) == once


def test_json_writes_records_to_stdout_and_lines_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_run(tmp_path, Resumed(2, 22, 31.0), *run_events()[-3:], json=True)
    out, err = capsys.readouterr()
    assert kinds(out) == ["run", "resumed", "epoch_by_rank", "epoch", "end"]
    assert "resumed at epoch 2 of 2, update 22\n" in err


def test_records_and_bar_never_share_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert log_run(tmp_path, json=True)[-1] == "PlainLogger"
    assert log_run(tmp_path)[-1] == "TerminalLogger"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert log_run(tmp_path, json=True)[-1] == "TerminalLogger"


@pytest.mark.parametrize(
    ("terminal", "term", "quiet", "expected"),
    [
        (False, "xterm", False, PlainLogger),
        (True, "xterm", False, TerminalLogger),
        (True, "dumb", False, PlainLogger),
        (True, "xterm", True, QuietLogger),
        (False, "xterm", True, QuietLogger),
    ],
)
def test_console_logger_suits_the_stream(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, term: str, quiet: bool, expected: type
) -> None:
    monkeypatch.setenv("TERM", term)
    with console_logger(io.StringIO(), terminal, Process(0, quiet=quiet)) as logger:
        assert isinstance(logger, expected)


def test_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = io.StringIO()
    with console_logger(stream, is_terminal=True, process=Process(0)) as logger:
        for event in run_events():
            logger(event)
    assert not set("\r\x1b") & set(stream.getvalue())
    assert "run            runs/digits-1" in stream.getvalue().splitlines()


@pytest.mark.parametrize(("quiet", "terminal"), [(False, False), (False, True), (True, False)])
def test_command_reaches_the_line_of_a_stopped_run(
    quiet: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    with console_logger(stream, terminal, Process(0, quiet=quiet, command="accel_train train --epochs 2")) as logger:
        for event in (STARTED, Stopped("SIGINT", 22, 130)):
            logger(event)
    line = "stopped by SIGINT after update 22 (saved); to resume: accel_train train --epochs 2"
    assert line in stream.getvalue().splitlines()  # in one piece, also on a narrow terminal


def test_new_logger_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Event] = []
    row = Row(lambda process: process.rank == 0, lambda started, process: nullcontext(seen.append))
    monkeypatch.setitem(LOGGERS, "tracker", row)
    log_run(tmp_path, rank=1)
    assert seen == []
    log_run(tmp_path)
    assert seen[1:] == run_events()[1:]


def test_run_ends_after_an_error_of_a_logger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def events() -> Generator[Event, None, None]:
        try:
            yield started(run_folder=str(tmp_path))
            yield run_events()[-1]
        finally:
            ended.append(True)

    def fail(event: Event) -> None:
        raise OSError("disk full")

    monkeypatch.setitem(LOGGERS, "tracker", Row(lambda process: True, lambda started, process: nullcontext(fail)))
    with pytest.raises(OSError, match="disk full") as error:  # while the error holds the frames, nothing is garbage
        list(logged(events(), rank=1))
    assert ended == [True], error


def test_loggers_are_closed_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Tracker:
        def __enter__(self) -> "Tracker":
            return self

        def __exit__(self, *exception: object) -> None:
            closed.append(True)

        def __call__(self, event: Event) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(LOGGERS, "tracker", Row(lambda process: True, lambda started, process: Tracker()))
    with pytest.raises(KeyboardInterrupt):
        log_run(tmp_path, STARTED)
    assert closed == [True]
