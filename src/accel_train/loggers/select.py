"""Opens the loggers of a process; a new logger is one row of `LOGGERS`."""

import os
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TextIO

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
)
from accel_train.loggers.jsonl import JsonLines
from accel_train.loggers.notebook import NotebookLogger, can_display, cell_output, in_notebook
from accel_train.loggers.plain import PlainLogger, QuietLogger
from accel_train.loggers.rank_log import RankLogger, start_logging, tell_closed
from accel_train.loggers.rows import RunConsole
from accel_train.loggers.run_files import open_to_append

Logger = Callable[[Event], None]
"""Takes each event of a run, in order."""

_HISTORY = (Progress, EpochByRank, EpochEnd, Profiled, RunEnded)
_RECORDS = (RunStarted, *_HISTORY, Resumed, RanksStarted, Saved, Notice, Stopped, ReportWritten)


@dataclass(frozen=True, slots=True)
class Process:
    """The process whose events are logged, and what its user asked for."""

    rank: int
    quiet: bool = False
    json: bool = False
    verbose: bool = False
    command: str | None = None
    """The command line that started the run; None if a launcher did."""


class Row(NamedTuple):
    """When a logger is used, and the context that opens it."""

    wanted: Callable[[Process], bool]
    open: Callable[[RunStarted, Process], AbstractContextManager[Logger]]
    stream: str | None = None
    """Where it writes, if the run continues when that is closed or full; None if its error ends the run."""


def logged(
    events: Generator[Event, None, None],
    *,
    rank: int,
    quiet: bool = False,
    json: bool = False,
    verbose: bool = False,
    command: str | None = None,
    only: Collection[str] | None = None,
    more: Sequence[Row] = (),
) -> Generator[Event, None, None]:
    """Pass the events of a process through its loggers, then yield each; the first is RunStarted.

    `json` writes records to stdout, and what a person reads to stderr. `only` names rows of :data:`LOGGERS`; those in
    `more` come after them.
    """
    started = next(events)
    assert isinstance(started, RunStarted)
    process = Process(rank, quiet=quiet, json=json, verbose=verbose, command=command)
    rows = [*(row for name, row in LOGGERS.items() if only is None or name in only), *more]
    with ExitStack() as stack:
        stack.enter_context(closing(events))
        loggers = [stack.enter_context(_opened(row, started, process)) for row in rows if row.wanted(process)]
        for event in chain([started], events):
            for log in loggers:
                log(event)
            yield event


@contextmanager
def _opened(row: Row, started: RunStarted, process: Process) -> Iterator[Logger]:
    """Open a logger; once its stream takes no more, such as a pipe without a reader, it is dropped."""
    with ExitStack() as stack:
        logger = stack.enter_context(row.open(started, process))
        if row.stream is None:
            yield logger
            return
        dropped = False

        def log(event: Event) -> None:
            nonlocal dropped
            if not dropped:
                try:
                    logger(event)
                except OSError as error:
                    dropped = True
                    tell_closed(str(row.stream), error)

        try:
            yield log
        finally:
            with suppress(OSError):  # told before, or nothing is left to tell
                stack.close()


def _rank_log(started: RunStarted, process: Process) -> AbstractContextManager[Logger]:
    start_logging(started, process.rank)
    return nullcontext(RankLogger(process.rank, process.command))


@contextmanager
def _metrics_file(started: RunStarted, process: Process) -> Iterator[Logger]:
    """Append to metrics.jsonl; a resumed run, whose history is already there, writes no second run record."""
    metrics = open_to_append(Path(started.run_folder, "metrics.jsonl"))
    try:
        yield JsonLines(metrics, _HISTORY if metrics.tell() else (RunStarted, *_HISTORY))
    finally:
        with suppress(OSError):  # raised before, with the file's name: each record is flushed
            metrics.close()


def _console(started: RunStarted, process: Process) -> AbstractContextManager[Logger]:
    stream = sys.stderr if process.json else sys.stdout
    shared = process.json and sys.stdout.isatty()  # records on the same terminal would tear the progress bar
    return console_logger(stream, stream.isatty() and not shared, process)


def _notebook(started: RunStarted, process: Process) -> AbstractContextManager[Logger]:
    return nullcontext(NotebookLogger(cell_output())) if can_display() else PlainLogger(sys.stdout)


def console_logger(stream: TextIO, is_terminal: bool, process: Process) -> AbstractContextManager[Logger]:
    """Return a context of the logger for a person; its end restores a terminal, also after an error."""
    verbose, command = process.verbose, process.command
    if process.quiet:
        return nullcontext(QuietLogger(stream, command=command))
    if is_terminal and os.environ.get("TERM") != "dumb":
        from accel_train.loggers.terminal import TerminalLogger  # takes 5 ms, for a terminal only

        console = RunConsole(file=stream, force_terminal=True, highlight=False)
        return TerminalLogger(console, verbose=verbose, command=command)
    return PlainLogger(stream, verbose=verbose, command=command)


LOGGERS: dict[str, Row] = {
    "rank log": Row(lambda process: True, _rank_log),
    "metrics.jsonl": Row(lambda process: process.rank == 0, _metrics_file),
    "records": Row(
        lambda process: process.rank == 0 and process.json,
        lambda started, process: nullcontext(JsonLines(sys.stdout, _RECORDS)),
        stream="stdout",
    ),
    "console": Row(lambda process: process.rank == 0, _console, stream="the console"),
    "notebook": Row(lambda process: process.rank == 0 and in_notebook(), _notebook, stream="the notebook"),
}
"""Every logger; each event goes through them in this order."""
