"""The sink for a terminal: a table of epochs that grows above one progress bar."""

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
from accel_train.loggers.throughput import Pace

_SECONDS_BETWEEN_DRAWS = 0.2
_SMALLEST_BAR = 8
_GAP = "  "


class TerminalSink:
    """Shows a run; :meth:`close`, or the end of its context, gives the terminal back.

    Only events redraw the bar. A thread that did it would take its time from training, and loader
    workers would be forked while it holds a lock.
    """

    _run: RunStarted
    _pace: Pace

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._next_draw = clock()
        self._local_loss = ""
        self._columns: list[Column] = []
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[facts]}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", facts="")
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._start,
            UpdateDone: self._count,
            Progress: self._note_loss,
            EpochEnd: self._add_row,
            RunEnded: self._end,
            Resumed: lambda event: self._say(f"resumed from update {event.update:,}"),
            Saved: lambda event: None,  # what happens every epoch is no news on a terminal
            Notice: lambda event: self._say(f"note: {printable(event.text)}"),
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
        self._pace = Pace(event.global_batch, self._clock)
        print_banner(self._console, event)
        self._console.print()
        self._bar.update(self._task, description=f"epoch 1/{event.epochs}", total=event.updates_per_epoch)
        self._bar.start()

    def _count(self, event: UpdateDone) -> None:
        self._pace.count(event)
        epoch_is_over = event.update % self._run.updates_per_epoch == 0  # shown while validation goes on
        if epoch_is_over or self._clock() >= self._next_draw:
            self._draw(event)
            self._next_draw = self._clock() + _SECONDS_BETWEEN_DRAWS

    def _draw(self, event: UpdateDone) -> None:
        description = f"epoch {event.epoch}/{self._run.epochs}"
        done = event.update - (event.epoch - 1) * self._run.updates_per_epoch
        room = self._console.width - len(description) - _SMALLEST_BAR - len(_GAP)
        self._bar.update(
            self._task, description=description, completed=done, facts=self._facts(done, room), refresh=True
        )

    def _facts(self, done: int, room: int) -> str:
        facts = f"{100 * done / self._run.updates_per_epoch:3.0f} %"
        for fact in (self._local_loss, f"{speed(self._pace.images_per_second()):>7} images/s"):
            if fact and len(facts + _GAP + fact) <= room:
                facts += _GAP + fact
        return facts

    def _note_loss(self, event: Progress) -> None:
        scope = "local loss" if self._run.world_size > 1 else "loss"
        self._local_loss = f"{scope} {loss(event.local_loss)}"

    def _add_row(self, event: EpochEnd) -> None:
        columns = fitting_columns(self._console.width, self._run.ema_half_life is not None)
        if columns != self._columns:
            self._console.print(Text(header(columns), style="bold"))
            self._columns = columns
        self._console.print(Text(row(columns, self._run, event)))

    def _show_profile(self, event: Profiled) -> None:
        for line in profile_lines(event):
            self._say(line)
        self._columns = []  # the table of epochs begins anew

    def _say(self, text: str) -> None:
        self._console.print(Text(text))

    def _stop(self, event: Stopped) -> None:
        self.close()
        self._say(stopped_line(event))

    def _end(self, event: RunEnded) -> None:
        self.close()
        self._console.print()
        print_summary(self._console, event, self._run.run_folder)
