"""The log of each process: a file per rank, and lines on stderr that start with the rank."""

import errno
import logging
import os
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from accel_train.events import EpochEnd, Event, Notice, Progress, Resumed, RunStarted, Stopped, as_record
from accel_train.loggers.run_files import open_to_append
from accel_train.loggers.text import quantity

_logger = logging.getLogger("accel_train")

_CLEAR_LINE = "\r\x1b[2K"


def start_logging(started: RunStarted, rank: int, console_level: int) -> None:
    """Send log records and warnings of this process to log/rank_N.log, and those from `console_level` on to stderr.

    Records of libraries and of the `warnings` module are included from WARNING on. Handlers of an earlier call are
    replaced. Lines have no timestamps, so that logs of equal runs can be compared.
    """
    path = Path(started.run_folder, "log", f"rank_{rank}.log")
    prefix = f"[rank {rank}/{started.hardware.world_size} {started.hardware.device}] " if rank else ""
    full: OSError | None = None
    file: logging.Handler = logging.NullHandler()
    try:
        file = _FileHandler(path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = error
    console = _ConsoleHandler(_Stderr(prefix))
    console.setLevel(console_level)
    for handler in (file, console):
        handler.setFormatter(logging.Formatter("%(line)s"))
        handler.addFilter(_add_line)
    logging.basicConfig(handlers=(file, console), level=logging.WARNING, force=True)
    _logger.setLevel(logging.DEBUG)
    logging.captureWarnings(True)
    if full:
        tell_closed(str(path), full)


class RankLogger:
    """Logs the numbers of this process: all in the file; on stderr one line per epoch, except on rank 0."""

    def __init__(self, rank: int) -> None:
        self._level = logging.INFO if rank else logging.DEBUG
        self._last: Progress | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            hardware = event.hardware
            _logger.log(self._level, "running on %s, %s", hardware.device, quantity(hardware.threads, "thread"))
        elif isinstance(event, Progress):
            self._last = event
            _logger.debug(
                "update %d lr %r local_loss %r local_ids_hash %s",
                event.update,
                event.lr,
                event.local_loss,
                event.local_ids_hash,
            )
        elif isinstance(event, Notice | Resumed | Stopped):
            _logger.debug("%s", as_record(event))
        elif isinstance(event, EpochEnd) and self._last:
            _logger.log(
                self._level,
                "epoch %d  local loss %.4f at update %d",
                event.epoch,
                self._last.local_loss,
                self._last.update,
            )
            self._last = None


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


def _add_line(record: logging.LogRecord) -> bool:
    """Set the text of a record's line, with the level from WARNING on, and let the record pass."""
    level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
    record.line = level + record.getMessage().rstrip()
    return True
