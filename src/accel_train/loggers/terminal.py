"""The logger for a terminal: a table of epochs that grows above a progress bar."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.segment import ControlType
from rich.text import Text

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
from accel_train.loggers.banner import print_banner
from accel_train.loggers.epoch_table import Column, fitting_columns, header, row
from accel_train.loggers.lines import GAP, rank_lines, resumed_line, stopped_line
from accel_train.loggers.profile_table import profile_lines
from accel_train.loggers.run_clock import RunClock
from accel_train.loggers.summary import print_next, print_report, print_summary
from accel_train.loggers.text import as_encoded, loss, printable, speed
from accel_train.loggers.throughput import Throughput

_SECONDS_BETWEEN_DRAWS = 0.2
_MIN_BAR_WIDTH = 8
_EMPTY = "bright_black"
"""Colour of the part of the bar that is left, grey on light and dark terminals."""


class TerminalLogger:
    """Shows a run; :meth:`close`, or the end of its context, restores the terminal. For options see :class:`Process`.

    Only events redraw the bar. A thread would slow training, and could hold a lock while loader workers are forked.
    """

    _run: RunStarted
    _throughput: Throughput
    _run_clock: RunClock
    _last: RunEnded | ReportWritten | None = None

    def __init__(
        self,
        console: Console,
        *,
        verbose: bool = False,
        command: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._verbose = verbose
        self._command = command
        self._clock = clock
        self._next_draw = clock()
        self._local_loss = ""
        self._columns: list[Column] = []
        self._bar = _Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None, style=_EMPTY),
            TextColumn("{task.fields[details]}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", details="")
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._start,
            Resumed: self._resume,
            RanksStarted: self._start_bar,
            UpdateDone: self._count,
            Progress: self._note_loss,
            EpochByRank: self._add_ranks,
            EpochEnd: self._add_row,
            RunEnded: self._end,
            ReportWritten: self._tell_report,
            Saved: lambda event: None,  # too frequent for a terminal
            Notice: lambda event: self._print(f"note: {printable(event.text)}"),
            Profiled: self._show_profile,
            Stopped: self._stop,
        }

    def __call__(self, event: Event) -> None:
        self._handlers[type(event)](event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Restore the terminal, and show the next command of a finished run: notes may have come after its results."""
        self.close()
        if self._last:
            print_next(self._console, self._last, self._run)

    def close(self) -> None:
        """Remove the bar and show the cursor again."""
        self._bar.stop()

    def _start(self, event: RunStarted) -> None:
        self._run = event
        self._throughput = Throughput(event.plan.global_batch, self._clock)
        self._run_clock = RunClock(event.plan, self._clock)
        print_banner(self._console, event, self._verbose)
        self._console.print()
        self._bar.update(self._task, total=event.plan.total_updates)
        self._place_bar(1, 0)

    def _resume(self, event: Resumed) -> None:
        self._run_clock.resume(event)
        self._print(resumed_line(self._run, event))
        self._place_bar(event.epoch, event.update)

    def _start_bar(self, event: RanksStarted) -> None:
        self._print_ranks(event)
        self._bar.start()

    def _add_ranks(self, event: EpochByRank) -> None:
        self._fit_columns()
        self._print_ranks(event)

    def _print_ranks(self, event: RanksStarted | EpochByRank) -> None:
        for line in rank_lines(self._run, event, self._console.width):
            self._print(printable(line), style="dim")

    def _count(self, event: UpdateDone) -> None:
        self._throughput.count(event)
        self._run_clock.count(event)
        validation_follows = event.update % self._run.plan.updates_per_epoch == 0
        if validation_follows or self._clock() >= self._next_draw:
            doing = "validating" if validation_follows else self._pace()
            self._place_bar(event.epoch, event.update, doing, self._local_loss)
            self._bar.refresh()
            self._next_draw = self._clock() + _SECONDS_BETWEEN_DRAWS

    def _pace(self) -> str:
        found = self._throughput.images_per_second()
        return "" if math.isnan(found) else f"{speed(found)} images/s"

    def _place_bar(self, epoch: int, update: int, *details: str) -> None:
        """Set what the bar shows, the details as far as there is room for them."""
        plan = self._run.plan
        description = f"epoch {epoch}/{plan.epochs}"
        room = self._console.width - len(description) - _MIN_BAR_WIDTH - len(GAP)
        shown = f"{100 * update / plan.total_updates:3.0f} %"
        times = (self._run_clock.text(), self._run_clock.left_text())
        time_that_fits = next((text for text in times if len(shown + GAP + text) <= room), "")
        for detail in (time_that_fits, *details):
            if detail and len(shown + GAP + detail) <= room:
                shown += GAP + detail
        self._bar.update(self._task, description=description, completed=update, details=shown)

    def _note_loss(self, event: Progress) -> None:
        scope = "local loss" if self._run.hardware.world_size > 1 else "loss"
        self._local_loss = f"{scope} {loss(event.local_loss)}"

    def _add_row(self, event: EpochEnd) -> None:
        self._run_clock.end_epoch(event)
        self._place_bar(event.epoch, event.update, self._local_loss)
        self._fit_columns()
        self._print(row(self._columns, self._run, event))

    def _fit_columns(self) -> None:
        """Choose the columns for the width of the terminal, and print their names if they are others than before."""
        columns = fitting_columns(self._run, self._console.width)
        if columns != self._columns:
            self._print(header(columns), style="bold")
            self._columns = columns

    def _show_profile(self, event: Profiled) -> None:
        for line in profile_lines(event):
            self._print(line)
        self._columns = []  # repeat the header of the epochs

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(as_encoded(text, self._console.encoding), style))

    def _stop(self, event: Stopped) -> None:
        self.close()
        line = printable(stopped_line(self._run, event, self._command))
        self._console.print(Text(line), soft_wrap=True)  # in one piece, to be copied

    def _end(self, event: RunEnded) -> None:
        self.close()
        self._last = event
        self._console.print()
        print_summary(self._console, event, self._run)

    def _tell_report(self, event: ReportWritten) -> None:
        self._last = event
        print_report(self._console, event)


class _Bar(Bar):
    """A progress bar of one line, with the cursor at its start.

    What others write there, such as the ^C of the terminal or a launcher's message, replaces the bar. At its end it
    would begin another line, and the bar would stay above that.
    """

    def get_renderables(self) -> Iterable[RenderableType]:
        yield _WithCursorAtStart(self.make_tasks_table(self.tasks))


@dataclass(frozen=True)
class _WithCursorAtStart:
    """A renderable of one line, without its line break."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (segment for segment in console.render(self.content, options) if segment.text != "\n")
        yield Control(ControlType.CARRIAGE_RETURN)
