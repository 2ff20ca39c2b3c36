"""The loggers for a file or a pipe: plain lines, each flushed, without control characters."""

import math
import time
from collections.abc import Callable
from typing import Any, TextIO

from accel_train.events import (
    EpochEnd,
    Event,
    Notice,
    PlanRecord,
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
from accel_train.loggers.profile_table import profile_lines
from accel_train.loggers.rows import RunConsole
from accel_train.loggers.summary import print_summary, stopped_line, summary_line
from accel_train.loggers.text import accuracy, duration, learning_rate, loss, printable, speed
from accel_train.loggers.throughput import Throughput

_SECONDS_BETWEEN_LINES = 30
_LINES_PER_RUN = 10
_GAP = "  "


class PlainLogger:
    """Writes a line per epoch, and in between one every 30 s or 10 % of the run."""

    _run: RunStarted
    _plan: PlanRecord
    _throughput: Throughput

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._console = RunConsole(file=stream, force_terminal=False, color_system=None, highlight=False)
        self._clock = clock
        self._next_update = 0
        self._next_time = 0.0
        self._progress: tuple[str, ...] = ()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RunStarted: self._start,
            UpdateDone: self._count,
            Progress: self._note_progress,
            EpochEnd: self._write_epoch,
            RunEnded: self._end,
            Resumed: lambda event: self._write(f"resumed from update {event.update}"),
            Saved: lambda event: self._write(f"saved checkpoint update {event.update}"),
            Notice: lambda event: self._write(f"note: {printable(event.text)}"),
            Profiled: lambda event: self._write("\n".join(profile_lines(event))),
            Stopped: lambda event: self._write(stopped_line(event)),
        }

    def __call__(self, event: Event) -> None:
        self._handlers[type(event)](event)

    def _start(self, event: RunStarted) -> None:
        self._run, self._plan = event, event.plan
        self._throughput = Throughput(event.plan.global_batch, self._clock)
        print_banner(self._console, event)
        self._schedule_next_line(update=0)

    def _count(self, event: UpdateDone) -> None:
        self._throughput.count(event)
        due = event.update >= self._next_update or self._clock() >= self._next_time
        epoch_is_over = event.update % self._plan.updates_per_epoch == 0  # the line of the epoch follows
        if due and not epoch_is_over:
            total = self._plan.total_updates
            self._write(
                f"update {event.update:,}/{total:,}",
                f"{100 * event.update / total:.0f} %",
                *self._progress,
                f"{speed(self._throughput.images_per_second())} images/s",
            )
            self._progress = ()  # written once
            self._schedule_next_line(event.update)

    def _note_progress(self, event: Progress) -> None:
        self._progress = (f"lr {learning_rate(event.lr)}", f"local loss {loss(event.local_loss)}")

    def _write_epoch(self, event: EpochEnd) -> None:
        self._write(
            f"epoch {event.epoch}/{self._plan.epochs}",
            f"train loss {loss(event.train_loss)}",
            f"val loss {loss(event.val_loss)}",
            f"val accuracy {accuracy(event.val_accuracy)}",
            f"lr {learning_rate(event.lr)}",
            f"{speed(event.images_per_second)} images/s",
            duration(event.seconds),
            *([f"ema {accuracy(event.ema_val_accuracy)}"] if event.ema_val_accuracy is not None else []),
            *(["best"] if event.best else []),
        )
        self._schedule_next_line(event.update)

    def _end(self, event: RunEnded) -> None:
        print_summary(self._console, event, self._run)

    def _write(self, *parts: str) -> None:
        self._stream.write(_GAP.join(parts) + "\n")
        self._stream.flush()

    def _schedule_next_line(self, update: int) -> None:
        lines_done = update * _LINES_PER_RUN // self._plan.total_updates
        self._next_update = math.ceil((lines_done + 1) * self._plan.total_updates / _LINES_PER_RUN)
        self._next_time = self._clock() + _SECONDS_BETWEEN_LINES


class QuietLogger:
    """Writes notices, and one line at the end of a run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._run_folder = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._run_folder = event.run_folder
            return
        text = None
        if isinstance(event, RunEnded):
            text = summary_line(event, self._run_folder)
        elif isinstance(event, Stopped):
            text = stopped_line(event)
        elif isinstance(event, Notice):
            text = f"note: {event.text}"
        if text:
            self._stream.write(printable(text) + "\n")
            self._stream.flush()
