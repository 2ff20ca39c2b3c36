"""The logger for a terminal: a table of epochs that grows above a progress bar."""

import time
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from accel_train.events import (
    EpochEnd,
    Event,
    Notice,
    Profiled,
    Progress,
    Resumed,
    RunEnded,
    RunStarted,
    Saved,
    Stopped,
    UpdateDone,
)
from accel_train.loggers.banner import print_banner
from accel_train.loggers.epoch_table import Column, fitting_columns, header, row
from accel_train.loggers.profile_table import profile_lines
from accel_train.loggers.summary import print_summary, stopped_line
from accel_train.loggers.text import loss, printable, speed
from accel_train.loggers.throughput import Throughput

_SECONDS_BETWEEN_DRAWS = 0.2
_MIN_BAR_WIDTH = 8
_GAP = "  "


class TerminalLogger:
    """Shows a run; :meth:`close`, or the end of its context, restores the terminal.

    Only events redraw the bar. A thread would slow training, and could hold a lock while loader workers are forked.
    """

    _run: RunStarted
    _throughput: Throughput

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._next_draw = clock()
        self._local_loss = ""
        self._columns: list[Column] = []
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[details]}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", details="")
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._start,
            UpdateDone: self._count,
            Progress: self._note_loss,
            EpochEnd: self._add_row,
            RunEnded: self._end,
            Resumed: lambda event: self._print(f"resumed from update {event.update:,}"),
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
        self.close()

    def close(self) -> None:
        """Remove the bar and show the cursor again."""
        self._bar.stop()

    def _start(self, event: RunStarted) -> None:
        self._run = event
        self._throughput = Throughput(event.plan.global_batch, self._clock)
        print_banner(self._console, event)
        self._console.print()
        self._bar.update(self._task, description=f"epoch 1/{event.plan.epochs}", total=event.plan.updates_per_epoch)
        self._bar.start()

    def _count(self, event: UpdateDone) -> None:
        self._throughput.count(event)
        epoch_is_over = event.update % self._run.plan.updates_per_epoch == 0  # the bar is full during validation
        if epoch_is_over or self._clock() >= self._next_draw:
            self._draw(event)
            self._next_draw = self._clock() + _SECONDS_BETWEEN_DRAWS

    def _draw(self, event: UpdateDone) -> None:
        description = f"epoch {event.epoch}/{self._run.plan.epochs}"
        done = event.update - (event.epoch - 1) * self._run.plan.updates_per_epoch
        room = self._console.width - len(description) - _MIN_BAR_WIDTH - len(_GAP)
        self._bar.update(
            self._task, description=description, completed=done, details=self._details(done, room), refresh=True
        )

    def _details(self, done: int, room: int) -> str:
        details = f"{100 * done / self._run.plan.updates_per_epoch:3.0f} %"
        for detail in (self._local_loss, f"{speed(self._throughput.images_per_second()):>7} images/s"):
            if detail and len(details + _GAP + detail) <= room:
                details += _GAP + detail
        return details

    def _note_loss(self, event: Progress) -> None:
        scope = "local loss" if self._run.hardware.world_size > 1 else "loss"
        self._local_loss = f"{scope} {loss(event.local_loss)}"

    def _add_row(self, event: EpochEnd) -> None:
        columns = fitting_columns(self._console.width, self._run.plan.ema_half_life is not None)
        if columns != self._columns:
            self._console.print(Text(header(columns), style="bold"))
            self._columns = columns
        self._console.print(Text(row(columns, self._run, event)))

    def _show_profile(self, event: Profiled) -> None:
        for line in profile_lines(event):
            self._print(line)
        self._columns = []  # repeat the header of the epochs

    def _print(self, text: str) -> None:
        self._console.print(Text(text))

    def _stop(self, event: Stopped) -> None:
        self.close()
        self._print(stopped_line(event))

    def _end(self, event: RunEnded) -> None:
        self.close()
        self._console.print()
        print_summary(self._console, event, self._run)
