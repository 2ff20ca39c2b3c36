"""The progress of a command that does one thing after another, such as decoding pictures."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TextIO

import typer

from accel_train.loggers.text import quantity, rough_duration

if TYPE_CHECKING:
    from accel_train.data.bad_images import Pictures

_SECONDS_BETWEEN_LINES = 10.0


class ShowProgress(Protocol):
    def __call__(self, done: int) -> None:
        """Show how many are done."""
        ...


@contextmanager
def progress(total: int, stream: TextIO | None = None, what: str = "picture") -> Iterator[ShowProgress]:
    """Yield a function that shows progress, on stdout by default: a bar on a terminal, else a line every 10 s."""
    stream = stream or sys.stdout
    began = time.monotonic()

    def left(done: int) -> str:
        return f"{rough_duration((time.monotonic() - began) * (total - done) / max(1, done))} left"

    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        next_line = began + _SECONDS_BETWEEN_LINES

        def write_line(done: int) -> None:
            nonlocal next_line
            if time.monotonic() >= next_line:
                say(f"{done:,} of {quantity(total, what)}, {left(done)}", stream)
                next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

        yield write_line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    # Without auto-refresh: its thread could hold a lock while workers are forked.
    columns = (BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    bar = Progress(*columns, console=Console(file=stream), auto_refresh=False, transient=True, expand=True)
    task = bar.add_task("", total=total, left="")

    def draw(done: int) -> None:
        with suppress(OSError):
            bar.update(task, completed=done, left=left(done), refresh=True)

    with suppress(OSError):
        bar.start()
    try:
        yield draw
    finally:
        with suppress(OSError):
            bar.stop()


def say(line: str, stream: TextIO | None = None) -> None:
    """Print a line, unless the terminal or the reader of the pipe has gone, which does not end the command."""
    with suppress(OSError):
        typer.echo(line, file=stream)


def decode_all(
    pictures: "Pictures", max_pixels: int, workers: int
) -> tuple[list[tuple[int, str]], list[tuple[int, int]]]:
    """Return index and reason of each bad picture, in order, and the sizes of the others."""
    from accel_train.data.bad_images import check_pictures

    bad, sizes, done = [], [], 0
    with progress(len(pictures)) as show:
        for checked in check_pictures(pictures, range(len(pictures)), max_pixels, workers):
            bad += [(image.index, image.reason) for image in checked.bad]
            sizes += [size for size in checked.sizes if size != (0, 0)]
            done += len(checked.sizes)
            show(done)
    return sorted(bad), sizes
