"""Chooses the sinks of a process: what a person sees, what a program reads, what is kept."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console

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
)
from accel_train.loggers.jsonl import JsonLines
from accel_train.loggers.plain import EndLineSink, LineSink
from accel_train.loggers.rank_log import RankLogSink, start_logging
from accel_train.loggers.terminal import TerminalSink

Sink = Callable[[Event], None]

_RESUMED = (Progress, EpochEnd, Profiled, RunEnded)
_ALL = (RunStarted, *_RESUMED, Resumed, Saved, Notice, Stopped)


@contextmanager
def open_sinks(
    folder: Path, *, rank: int, world_size: int, device: str, quiet: bool, json: bool, resumed: bool
) -> Iterator[list[Sink]]:
    """Yield the sinks of a process: a log on every rank; on rank 0 also metrics.jsonl and what a person sees.

    With `json` the records go to stdout too, and what a person sees to stderr. The history of a resumed run goes on
    in metrics.jsonl, which begins with how the run was first started.
    """
    start_logging(
        folder / "log" / f"rank_{rank}.log", rank, world_size, device, logging.WARNING if quiet else logging.INFO
    )
    with ExitStack() as stack:
        sinks: list[Sink] = [RankLogSink(rank)]
        if rank == 0:
            metrics = stack.enter_context((folder / "metrics.jsonl").open("a", encoding="utf-8"))
            sinks.append(JsonLines(metrics, _RESUMED if resumed else (RunStarted, *_RESUMED)))
            if json:
                sinks.append(JsonLines(sys.stdout, _ALL))
            stream = sys.stderr if json else sys.stdout
            terminal = stream.isatty() and not (json and sys.stdout.isatty())  # else records would tear the bar
            sinks.append(stack.enter_context(human_sink(stream, terminal, quiet)))
        yield sinks


@contextmanager
def human_sink(stream: TextIO, stream_is_terminal: bool, quiet: bool) -> Iterator[Sink]:
    """Yield the sink for a stream, and give a terminal back afterwards, also after an error."""
    if quiet:
        yield EndLineSink(stream)
    elif stream_is_terminal and os.environ.get("TERM") != "dumb":
        with TerminalSink(Console(file=stream, force_terminal=True, highlight=False)) as sink:
            yield sink
    else:
        yield LineSink(stream)
