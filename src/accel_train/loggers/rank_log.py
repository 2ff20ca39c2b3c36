"""Logs of every process: a file for each, and lines on stderr that name the process."""

import logging
import os
import sys
import textwrap
from pathlib import Path

from accel_train.events import EpochEnd, Event, Notice, Progress, Resumed, RunStarted, Stopped, as_record
from accel_train.loggers.text import quantity

_logger = logging.getLogger("accel_train")

_CLEAR_LINE = "\r\x1b[2K"


def start_logging(path: Path, rank: int, world_size: int, device: str, console_level: int) -> None:
    """Send every log record and warning of this process to `path`, and from `console_level` on to stderr.

    The records of libraries and of the `warnings` module go the same way, from WARNING on. Handlers of
    an earlier call are replaced. Lines bear no time: the logs of equal runs can be compared.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _RaisingFileHandler(path, encoding="utf-8", errors="backslashreplace")
    console = logging.StreamHandler(_Stderr(f"[rank {rank}/{world_size} {device}] " if rank else ""))
    console.setLevel(console_level)
    for handler in (file, console):
        handler.setFormatter(logging.Formatter("%(line)s"))
        handler.addFilter(_add_line)
    logging.basicConfig(handlers=(file, console), level=logging.WARNING, force=True)
    _logger.setLevel(logging.DEBUG)
    logging.captureWarnings(True)


class RankLogSink:
    """Logs the numbers of this process: all of them in the file, on ranks other than 0 one line an epoch."""

    def __init__(self, rank: int) -> None:
        self._level = logging.INFO if rank else logging.DEBUG
        self._last: Progress | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            _logger.log(self._level, "runs on %s, %s", event.device, quantity(event.threads, "thread"))
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


class _RaisingFileHandler(logging.FileHandler):
    """Raises what goes wrong, such as a full disk, where logging would print a traceback and go on."""

    def handleError(self, record: logging.LogRecord) -> None:
        raise sys.exc_info()[1] or AssertionError("called without an error")


class _Stderr:
    """What stderr is at the moment of writing: while a bar is shown, Rich puts its own stream there.

    The bar of rank 0 stands on the same terminal as the lines of the other ranks, which have a prefix.
    They clear it, and rank 0 draws it again below.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def write(self, text: str) -> None:
        may_meet_a_bar = self._prefix and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        lines = textwrap.indent(text, self._prefix)
        sys.stderr.write(_CLEAR_LINE + lines if may_meet_a_bar else lines)

    def flush(self) -> None:
        sys.stderr.flush()


def _add_line(record: logging.LogRecord) -> bool:
    """Set the text of a record's line, with the level where it means trouble, and let the record pass."""
    level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
    record.line = level + record.getMessage().rstrip()
    return True
