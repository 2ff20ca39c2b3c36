"""The logger for a notebook: a table of epochs that grows in the output of a cell."""

import io
import math
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from html import escape
from typing import Any

from rich.console import Console

from accel_train.events import (
    EpochEnd,
    Event,
    Notice,
    Progress,
    ReportWritten,
    Resumed,
    RunEnded,
    RunStarted,
    Stopped,
    UpdateDone,
)
from accel_train.loggers.banner import print_banner
from accel_train.loggers.epoch_table import fitting_columns
from accel_train.loggers.lines import GAP, resumed_line, stopped_line
from accel_train.loggers.rows import RunConsole
from accel_train.loggers.run_clock import RunClock
from accel_train.loggers.summary import print_next, print_report, print_summary
from accel_train.loggers.text import loss, printable, speed
from accel_train.loggers.throughput import Throughput

_SECONDS_BETWEEN_DRAWS = 0.5
_WIDE = 200
_STYLE = "font-family: monospace; text-align: right; white-space: pre"
Display = Callable[[dict[str, str]], None]
"""Shows a MIME bundle in place of the one before."""


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, or forked from it."""
    return _kernel() is not None


def can_display() -> bool:
    """Return whether the kernel sends what this process displays; of a forked one it sends only what that prints."""
    kernel = _kernel()
    return kernel is not None and bool(kernel.session.pid == os.getpid())


def _kernel() -> Any:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None)


def cell_output() -> Display:
    """Return what shows bundles in the output of the cell that runs now."""
    from IPython.display import display

    handle = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda bundle: handle.update(bundle, raw=True)


class LiveRun(Iterator[Event]):
    """The events of a run, for a loop; as the last value of a cell it carries out the run and shows it."""

    def __init__(self, events: Generator[Event, None, None]) -> None:
        self._events = events

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """End the run before its time."""
        self._events.close()

    def _ipython_display_(self) -> None:
        for _ in self:
            pass


class NotebookLogger:
    """Shows the first lines of a run, its epochs, how far it is, notes and results; redrawn by events only."""

    _run: RunStarted
    _throughput: Throughput
    _run_clock: RunClock

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._clock = clock
        self._next_draw = clock()
        self._banner = self._result = self._state = self._local_loss = ""
        self._notes: list[str] = []
        self._epochs: list[EpochEnd] = []
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._start,
            Resumed: self._resume,
            UpdateDone: self._count,
            Progress: self._note_loss,
            EpochEnd: self._add_epoch,
            Notice: lambda event: self._notes.append(f"note: {event.text}"),
            Stopped: lambda event: self._end(f"{stopped_line(self._run, event, None)}\n"),
            RunEnded: self._end_run,
            ReportWritten: self._tell_report,
        }

    def __call__(self, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler:
            handler(event)
            if not isinstance(event, UpdateDone) or self._clock() >= self._next_draw:
                self._display({"text/plain": self._text(), "text/html": self._html()})
                self._next_draw = self._clock() + _SECONDS_BETWEEN_DRAWS

    def _start(self, event: RunStarted) -> None:
        self._run = event
        self._throughput = Throughput(event.plan.global_batch, self._clock)
        self._run_clock = RunClock(event.plan, self._clock)
        self._columns = fitting_columns(event, _WIDE)
        self._banner = _printed(lambda console: print_banner(console, event, verbose=False))

    def _resume(self, event: Resumed) -> None:
        self._run_clock.resume(event)
        self._notes.append(resumed_line(self._run, event))

    def _count(self, event: UpdateDone) -> None:
        self._throughput.count(event)
        self._run_clock.count(event)
        plan, pace = self._run.plan, self._throughput.images_per_second()
        parts = (
            f"epoch {event.epoch}/{plan.epochs}",
            f"{100 * event.update / plan.total_updates:.0f} %",
            self._local_loss,
            "" if math.isnan(pace) else f"{speed(pace)} images/s",
            self._run_clock.text(),
        )
        self._state = GAP.join(filter(None, parts))

    def _note_loss(self, event: Progress) -> None:
        scope = "local loss" if self._run.hardware.world_size > 1 else "loss"
        self._local_loss = f"{scope} {loss(event.local_loss)}"

    def _add_epoch(self, event: EpochEnd) -> None:
        self._run_clock.end_epoch(event)
        self._epochs.append(event)

    def _end(self, text: str) -> None:
        self._result += text
        self._state = ""

    def _end_run(self, event: RunEnded) -> None:
        self._end(_printed(lambda console: print_summary(console, event, self._run)))
        if not self._run.config["report"]:
            self._end(_printed(lambda console: print_next(console, event, self._run)))

    def _tell_report(self, event: ReportWritten) -> None:
        self._end(_printed(lambda console: print_report(console, event)))
        self._end(_printed(lambda console: print_next(console, event, self._run)))

    def _rows(self) -> list[list[str]]:
        names = [column.name for column in self._columns]
        return [names, *([column.text(self._run, end) for column in self._columns] for end in self._epochs)]

    def _text(self) -> str:
        widths = [column.width for column in self._columns]
        rows = [GAP.join(map(str.rjust, row, widths)) for row in self._rows()] if self._epochs else []
        lines = [self._banner.rstrip(), *rows, *map(printable, self._notes), self._state, self._result.rstrip()]
        return "\n".join(filter(None, lines))

    def _html(self) -> str:
        names, *rows = self._rows()
        head = "".join(f'<th style="{_STYLE}">{escape(name)}</th>' for name in names)
        body = "".join(
            "<tr>" + "".join(f'<td style="{_STYLE}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        below = "\n".join(filter(None, [*map(printable, self._notes), self._state, self._result]))
        return f"<pre>{escape(self._banner)}</pre>{table}<pre>{escape(below)}</pre>"


def _printed(write: Callable[[Console], None]) -> str:
    text = io.StringIO()
    write(RunConsole(file=text, force_terminal=False, color_system=None, highlight=False))
    return text.getvalue()
