"""The log of each process: a file per rank, and lines on stderr that start with the rank."""

import errno
import logging
import os
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from accel_train.events import (
    EpochByRank,
    EpochEnd,
    Event,
    Notice,
    Profiled,
    Progress,
    RanksStarted,
    ReportWritten,
    Resumed,
    RunEnded,
    RunStarted,
    Saved,
    Stopped,
    UpdateDone,
)
from accel_train.loggers.host_map import host_lines
from accel_train.loggers.lines import (
    epoch_line,
    rank_epoch_text,
    rank_prefix,
    rank_start_text,
    resumed_line,
    saved_line,
    stopped_line,
)
from accel_train.loggers.profile_table import profile_lines
from accel_train.loggers.run_files import open_to_append
from accel_train.loggers.summary import summary_line
from accel_train.loggers.text import printable

_logger = logging.getLogger("accel_train")

_CLEAR_LINE = "\r\x1b[2K"


def start_logging(started: RunStarted, rank: int) -> None:
    """Send log records and warnings of this process to log/rank_N.log, and those from WARNING on to stderr too.

    Records of libraries and of the `warnings` module are included from WARNING on. Handlers of an earlier call are
    replaced.
    """
    path = Path(started.run_folder, "log", f"rank_{rank}.log")
    prefix = rank_prefix(rank, started.hardware.world_size, started.hardware.device) if rank else ""
    full: OSError | None = None
    file: logging.Handler = logging.NullHandler()
    try:
        file = _FileHandler(path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = error
    console = _ConsoleHandler(_Stderr(prefix))
    console.setLevel(logging.WARNING)
    file.setFormatter(_WithTime())
    console.setFormatter(_Lines())
    logging.basicConfig(handlers=(file, console), level=logging.WARNING, force=True)
    _logger.setLevel(logging.DEBUG)
    logging.captureWarnings(True)
    if full:
        tell_closed(str(path), full)


class RankLogger:
    """Logs what happens to this process, in the file only: its console is that of rank 0's logger."""

    _run: RunStarted

    def __init__(self, rank: int, command: str | None = None) -> None:
        self._rank = rank
        self._texts: dict[type[Event], Callable[[Any], str]] = {
            Resumed: lambda event: resumed_line(self._run, event),
            RanksStarted: self._started,
            Progress: _progress,
            EpochByRank: lambda event: rank_epoch_text(self._run, event, rank),
            EpochEnd: lambda event: epoch_line(self._run, event),
            Saved: saved_line,
            Notice: lambda event: f"note: {printable(event.text)}",
            Profiled: lambda event: "\n".join(profile_lines(event)),
            Stopped: lambda event: stopped_line(self._run, event, command),
            RunEnded: lambda event: summary_line(event, self._run),
            ReportWritten: lambda event: f"report: {printable(event.path)}",
        }

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._run = event
            _logger.debug("%s", "\n".join(host_lines(event.hardware.hosts)))
        elif not isinstance(event, UpdateDone):
            _logger.debug("%s", self._texts[type(event)](event))

    def _started(self, event: RanksStarted) -> str:
        return f"running on {event.ranks[self._rank].device}, {rank_start_text(self._run, event, self._rank)}"


def _progress(event: Progress) -> str:
    numbers = {"lr": event.lr, "local_loss": event.local_loss}
    exact = " ".join(f"{name} {value!r}" for name, value in numbers.items())
    return f"update {event.update} {exact} local_ids_hash {event.local_ids_hash}"


def tell_closed(stream: str, error: OSError) -> None:
    """Tell on all other streams that one is closed or full."""
    _logger.warning("%s is closed, the run continues: %s", stream, error.strerror or error)


class _FileHandler(logging.StreamHandler[TextIO]):
    """Is dropped when its disk is full; logging's own handler prints a traceback for every line."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_to_append(path))
        self._path = path

    def handleError(self, record: logging.LogRecord) -> None:
        _drop(self, str(self._path))

    def close(self) -> None:
        with suppress(OSError):  # told before
            self.stream.close()
        super().close()


class _ConsoleHandler(logging.StreamHandler["_Stderr"]):
    """Is dropped when its terminal or pipe is gone."""

    def handleError(self, record: logging.LogRecord) -> None:
        _drop(self, "stderr")


def _drop(handler: logging.Handler, stream: str) -> None:
    """Let a handler take no more records, after an error of its stream."""
    error = sys.exc_info()[1]
    if not isinstance(error, OSError):
        raise error or AssertionError("called without an error")
    handler.setLevel(sys.maxsize)
    tell_closed(stream, error)


class _Stderr:
    """Writes to the current sys.stderr, which Rich replaces while a progress bar is shown.

    Ranks other than 0, whose lines have a prefix, share the terminal with the bar of rank 0. They clear the bar's line,
    and rank 0 draws the bar again below.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def write(self, text: str) -> None:
        shares_terminal_with_bar = self._prefix and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        lines = textwrap.indent(text, self._prefix)
        sys.stderr.write(_CLEAR_LINE + lines if shares_terminal_with_bar else lines)

    def flush(self) -> None:
        sys.stderr.flush()


class _Lines(logging.Formatter):
    """Shows the level from WARNING on."""

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return level + record.getMessage().rstrip()


class _WithTime(_Lines):
    """Begins every line with the local time and its zone."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        return textwrap.indent(super().format(record), f"{time} ", lambda line: True)
