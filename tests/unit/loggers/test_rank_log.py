"""The log file of each process, and its lines on stderr."""

import errno
import io
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from helpers.run_events import run_events, started

from accel_train.errors import LocalError
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
    start_logging(started(run_folder=str(folder), world_size=world_size), rank, logging.INFO)
    return folder / "log" / f"rank_{rank}.log"


def test_log_file_has_every_progress_unrounded(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, logger = start(run_folder, rank=0), RankLogger(rank=0)
    for event in run_events():
        logger(event)
    assert log.read_text().splitlines()[:4] == [
        "running on cpu, 1 thread",
        "update 10 lr 0.30000000000000004 local_loss 0.3333333333333333 local_ids_hash 0x1f",
        "update 20 lr 0.30000000000000004 local_loss 0.3333333333333333 local_ids_hash 0x1f",
        "epoch 1  local loss 0.3333 at update 20",
    ]
    assert capsys.readouterr().err == ""


def test_other_ranks_print_a_prefixed_line_per_epoch(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, logger = start(run_folder, rank=1), RankLogger(rank=1)
    for event in run_events():
        logger(event)
    assert capsys.readouterr().err.splitlines() == [
        "[rank 1/2 cpu] running on cpu, 1 thread",
        "[rank 1/2 cpu] epoch 1  local loss 0.3333 at update 20",
        "[rank 1/2 cpu] epoch 2  local loss 0.3333 at update 40",
    ]
    assert "[rank" not in log.read_text()


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
        logging.getLogger("accel_train").info("hello")
    assert stream.getvalue() == "hello\n\r\x1b[2K[rank 1/2 cpu] hello\n"


def test_warnings_and_library_records_are_logged(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        log = start(run_folder, rank=0, world_size=1)
        warnings.warn("careful", UserWarning, stacklevel=1)
        logging.getLogger("some_library").warning("odd")
        logging.getLogger("some_library").info("chatter")
        logging.captureWarnings(False)
    lines = log.read_text().splitlines()
    assert lines[0].startswith("warning: ")
    assert lines[0].endswith("UserWarning: careful")
    assert lines[-1] == "warning: odd"
    assert capsys.readouterr().err == log.read_text()


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
        logging.getLogger("accel_train").info("line %d", number)
    assert log.getvalue() == "line 0\n"
    told = f"warning: {path} is closed, the run continues: No space left on device"
    assert capsys.readouterr().err.splitlines() == ["line 0", told, "line 1", "line 2"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_log_that_cannot_be_made_on_a_full_disk_is_dropped(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(path: Path) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(rank_log, "open_to_append", fail)
    path = start(run_folder, rank=0)
    logging.getLogger("accel_train").info("line")
    told = f"warning: {path} is closed, the run continues: {os.strerror(number)}"
    assert capsys.readouterr().err.splitlines() == [told, "line"]


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
