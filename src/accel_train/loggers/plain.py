"""The loggers for a file or a pipe: plain lines, each flushed, without control characters."""

import math
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

from accel_train.events import (
    EpochByRank,
    EpochEnd,
    Event,
    Notice,
    PlanRecord,
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
from accel_train.loggers.lines import GAP, epoch_line, rank_lines, resumed_line, saved_line, stopped_line
from accel_train.loggers.profile_table import profile_lines
from accel_train.loggers.rows import RunConsole
from accel_train.loggers.run_clock import RunClock
from accel_train.loggers.summary import print_next, print_report, print_summary, summary_line
from accel_train.loggers.text import learning_rate, loss, printable, speed
from accel_train.loggers.throughput import Throughput

_SECONDS_BETWEEN_LINES = 30
_LINES_PER_RUN = 10


class PlainLogger:
    """Writes a line per epoch, and in between one every 30 s or 10 % of the run; see :class:`Process` for options."""

    _run: RunStarted
    _plan: PlanRecord
    _throughput: Throughput
    _run_clock: RunClock

    def __init__(
        self,
        stream: TextIO,
        *,
        verbose: bool = False,
        command: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._verbose = verbose
        self._command = command
        self._console = RunConsole(file=stream, force_terminal=False, color_system=None, highlight=False)
        self._clock = clock
        self._next_update = 0
        self._next_time = 0.0
        self._last: RunEnded | ReportWritten | None = None
        self._progress: tuple[str, ...] = ()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._start,
            Resumed: self._resume,
            RanksStarted: self._write_ranks,
            UpdateDone: self._count,
            Progress: self._note_progress,
            EpochByRank: self._write_ranks,
            EpochEnd: self._write_epoch,
            RunEnded: self._end,
            ReportWritten: self._tell_report,
            Saved: lambda event: self._write(saved_line(event)),
            Notice: lambda event: self._write(f"note: {event.text}"),
            Profiled: lambda event: self._write(*profile_lines(event)),
            Stopped: lambda event: self._write(stopped_line(self._run, event, self._command)),
        }

    def __call__(self, event: Event) -> None:
        self._handlers[type(event)](event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Write the next command of a finished run: notes may have come after its results."""
        if self._last:
            print_next(self._console, self._last, self._run)

    def _start(self, event: RunStarted) -> None:
        self._run, self._plan = event, event.plan
        self._throughput = Throughput(event.plan.global_batch, self._clock)
        self._run_clock = RunClock(event.plan, self._clock)
        print_banner(self._console, event, self._verbose)
        self._schedule_next_line(update=0)

    def _resume(self, event: Resumed) -> None:
        self._run_clock.resume(event)
        self._write(resumed_line(self._run, event))

    def _write_ranks(self, event: RanksStarted | EpochByRank) -> None:
        self._write(*rank_lines(self._run, event))

    def _count(self, event: UpdateDone) -> None:
        self._throughput.count(event)
        self._run_clock.count(event)
        due = event.update >= self._next_update or self._clock() >= self._next_time
        epoch_is_over = event.update % self._plan.updates_per_epoch == 0  # the line of the epoch follows
        if due and not epoch_is_over:
            total = self._plan.total_updates
            parts = (
                f"update {event.update:,}/{total:,}",
                f"{100 * event.update / total:.0f} %",
                *self._progress,
                f"{speed(self._throughput.images_per_second())} images/s",
                self._run_clock.text(),
            )
            self._write(GAP.join(parts))
            self._progress = ()  # written once
            self._schedule_next_line(event.update)

    def _note_progress(self, event: Progress) -> None:
        self._progress = (f"lr {learning_rate(event.lr)}", f"local loss {loss(event.local_loss)}")

    def _write_epoch(self, event: EpochEnd) -> None:
        self._run_clock.end_epoch(event)
        self._write(GAP.join(filter(None, (epoch_line(self._run, event), self._run_clock.left_text()))))
        self._schedule_next_line(event.update)

    def _end(self, event: RunEnded) -> None:
        self._last = event
        print_summary(self._console, event, self._run)

    def _tell_report(self, event: ReportWritten) -> None:
        self._last = event
        print_report(self._console, event)

    def _write(self, *lines: str) -> None:
        self._stream.write("".join(f"{printable(line)}\n" for line in lines))
        self._stream.flush()

    def _schedule_next_line(self, update: int) -> None:
        lines_done = update * _LINES_PER_RUN // self._plan.total_updates
        self._next_update = math.ceil((lines_done + 1) * self._plan.total_updates / _LINES_PER_RUN)
        self._next_time = self._clock() + _SECONDS_BETWEEN_LINES


class QuietLogger:
    """Writes notices, and one line at the end of a run."""

    _run: RunStarted

    def __init__(self, stream: TextIO, *, command: str | None = None) -> None:
        self._stream = stream
        self._command = command

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._run = event
            return
        text = None
        if isinstance(event, RunEnded):
            text = summary_line(event, self._run)
        elif isinstance(event, Stopped):
            text = stopped_line(self._run, event, self._command)
        elif isinstance(event, Notice):
            text = f"note: {event.text}"
        if text:
            self._stream.write(printable(text) + "\n")
            self._stream.flush()
