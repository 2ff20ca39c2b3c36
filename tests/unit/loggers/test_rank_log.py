"""The log file of each process, and its lines on stderr."""

import errno
import io
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from helpers.run_events import STARTED, run_events, started

from accel_train.errors import LocalError
from accel_train.events import Notice, PhaseTimes, Profiled, ReportWritten, Resumed, Saved, Stopped
from accel_train.loggers import rank_log
from accel_train.loggers.rank_log import RankLogger, start_logging


@pytest.fixture
def run_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a run folder; restore afterwards what :func:`start_logging` changes in this process."""
    root, package = logging.getLogger(), logging.getLogger("accel_train")
    handlers, levels = root.handlers[:], (root.level, package.level)
    root.handlers.clear()
    yield tmp_path
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    package.setLevel(levels[1])
    logging.captureWarnings(False)


def start(folder: Path, rank: int, world_size: int = 2) -> Path:
    """Start the logging of a rank and return its log file."""
    start_logging(started(run_folder=str(folder), world_size=world_size), rank)
    return folder / "log" / f"rank_{rank}.log"


def untimed(log: Path) -> list[str]:
    """Return the lines of a log without their times."""
    return [line.split(" ", 1)[1] for line in log.read_text().splitlines()]


def test_log_file_has_every_progress_unrounded(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, logger = start(run_folder, rank=0), RankLogger(rank=0)
    for event in run_events():
        logger(event)
    assert untimed(log)[:6] == [
        "host 0 (node1): ranks 0–1, cpu, lo",
        "running on cpu, gloo, host node1, process 4711, 1 thread",
        "update 10 lr 0.30000000000000004 local_loss 0.3333333333333333 local_ids_hash 0x1f",
        "update 20 lr 0.30000000000000004 local_loss 0.3333333333333333 local_ids_hash 0x1f",
        "epoch 1/2  loss 0.4000 over 704 images  1,456 images/s  weights 8f3a19c2",
        "epoch 1/2  train loss 0.4123  val loss 0.2780  val accuracy 0.9031  lr 0.05  2,912 images/s  21.0 s  best",
    ]
    assert untimed(log)[-1].startswith("validation accuracy 0.9031, best 0.9031 in epoch 2, 2 epochs in 1 min 2 s")
    assert capsys.readouterr().err == ""


def test_log_of_another_rank_has_its_own_numbers(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, logger = start(run_folder, rank=1), RankLogger(rank=1)
    for event in run_events():
        logger(event)
    assert untimed(log)[:2] == [
        "host 0 (node1): ranks 0–1, cpu, lo",
        "running on cpu, gloo, host node1, process 4712, 1 thread",
    ]
    assert "epoch 2/2  loss 0.2123 over 704 images  1,456 images/s  weights 8f3a19c2" in untimed(log)
    assert "[rank" not in log.read_text()
    assert capsys.readouterr() == ("", "")


def test_every_event_is_a_line_of_text(run_folder: Path) -> None:
    log, logger = start(run_folder, rank=0), RankLogger(rank=0, command="accel_train train --epochs 2")
    profile = Profiled(11, 20, (PhaseTimes(1.0, 2.0, 3.0, 4.0, 5.0, 6.0),), 0, "profile")
    rest = (
        Resumed(2, 33, 60.0),
        Saved(33),
        Notice("odd\nname"),
        profile,
        ReportWritten("r.html"),
        Stopped("SIGTERM", 33, 143),
    )
    for event in (STARTED, *rest):
        logger(event)
    first, *lines = untimed(log)
    assert first == "host 0 (node1): ranks 0–1, cpu, lo"
    assert lines[:3] == ["resumed at epoch 2 of 2, update 33", "saved checkpoint update 33", "note: odd\\nname"]
    assert lines[3] == "profile of updates 11 to 20: ms per update, share of the total"
    assert lines[-2] == "report: r.html"
    assert lines[-1] == "stopped by SIGTERM after update 33 (saved); to resume: accel_train train --epochs 2"
    assert not any(glyph in log.read_text() for glyph in "{}[]")


def test_every_line_starts_with_the_local_time_and_its_zone(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")  # two hours east
    time.tzset()
    try:
        log = start(run_folder, rank=0)
        logging.getLogger("accel_train").warning("first\nsecond")
    finally:
        monkeypatch.undo()
        time.tzset()
    stamps, lines = zip(*(line.split(" ", 1) for line in log.read_text().splitlines()), strict=True)
    assert lines == ("warning: first", "second")
    assert stamps[0] == stamps[1]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+02:00", stamps[0])
    assert abs(datetime.now(UTC) - datetime.fromisoformat(stamps[0])) < timedelta(minutes=1)


def test_record_of_several_lines_is_one_write(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[str] = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", writes.append)
    monkeypatch.setattr("sys.stderr", stream)
    start(run_folder, rank=1)
    logging.getLogger("accel_train.training.loop").error("first\nsecond")
    assert writes == ["[rank 1/2 cpu] error: first\n[rank 1/2 cpu] second\n"]


def test_other_ranks_clear_the_bar_on_a_shared_terminal(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    for rank in (0, 1):
        start(run_folder, rank)
        logging.getLogger("accel_train").warning("hello")
    assert stream.getvalue() == "warning: hello\n\r\x1b[2K[rank 1/2 cpu] warning: hello\n"


def test_warnings_and_library_records_are_logged(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        log = start(run_folder, rank=0, world_size=1)
        warnings.warn("careful", UserWarning, stacklevel=1)
        logging.getLogger("some_library").warning("odd")
        logging.getLogger("some_library").info("chatter")
        logging.captureWarnings(False)
    lines = untimed(log)
    assert lines[0].startswith("warning: ")
    assert lines[0].endswith("UserWarning: careful")
    assert lines[-1] == "warning: odd"
    assert capsys.readouterr().err.splitlines() == lines


class Full(io.StringIO):
    """A stream on a full disk, once it has taken a line."""

    def write(self, text: str) -> int:
        if self.getvalue():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


def test_full_log_is_dropped_with_one_line(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Full()
    monkeypatch.setattr(rank_log, "open_to_append", lambda path: log)
    path = start(run_folder, rank=0)
    for number in range(3):
        logging.getLogger("accel_train").warning("line %d", number)
    assert log.getvalue().endswith("warning: line 0\n")
    told = f"warning: {path} is closed, the run continues: No space left on device"
    assert capsys.readouterr().err.splitlines() == ["warning: line 0", told, "warning: line 1", "warning: line 2"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_log_that_cannot_be_made_on_a_full_disk_is_dropped(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(path: Path) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(rank_log, "open_to_append", fail)
    path = start(run_folder, rank=0)
    logging.getLogger("accel_train").warning("line")
    told = f"warning: {path} is closed, the run continues: {os.strerror(number)}"
    assert capsys.readouterr().err.splitlines() == [told, "warning: line"]


def test_log_that_cannot_be_made_for_another_reason_ends_the_run(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(rank_log, "open_to_append", fail)
    with pytest.raises(OSError, match="Read-only file system"):
        start(run_folder, rank=0)


def test_log_is_not_written_through_a_link(run_folder: Path) -> None:
    victim = run_folder / "victim"
    victim.write_text("mine")
    (run_folder / "log").mkdir()
    (run_folder / "log" / "rank_0.log").symlink_to(victim)
    with pytest.raises(LocalError) as raised:
        start(run_folder, rank=0)
    assert raised.value.message == f"{run_folder / 'log' / 'rank_0.log'} is a link"
    assert victim.read_text() == "mine"


def test_log_that_is_a_fifo_is_refused(run_folder: Path) -> None:
    (run_folder / "log").mkdir()
    os.mkfifo(run_folder / "log" / "rank_0.log")
    with pytest.raises(LocalError, match="is a FIFO"):
        start(run_folder, rank=0)
