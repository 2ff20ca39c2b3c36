"""The command ``pack``."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from accel_train.config.fields import expand_home
from accel_train.distributed.environment import available_cores
from accel_train.distributed.launcher import check_alone
from accel_train.loggers.text import printable, quantity, quoted, rough_duration
from accel_train.system.process import without_gc
from accel_train.system.signals import StopSignals

if TYPE_CHECKING:
    from accel_train.data.packing.pack import Packing

Source = Annotated[
    Path, typer.Argument(metavar="SRC", help="Folder of pictures: CLASS/… or train/CLASS/… and val/CLASS/….")
]
Destination = Annotated[Path, typer.Argument(metavar="DST", help="Packed folder, for train --data DST.")]
Side = Annotated[
    int,
    typer.Option(
        min=1, show_default=False, help="Shorter side in pixels; smaller pictures keep their size. Default: 256."
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes that decode. Default: one per core.")]

_SECONDS_BETWEEN_LINES = 10.0


class ShowProgress(Protocol):
    def __call__(self, done: int) -> None:
        """Show the number of pictures done."""
        ...


def pack(
    context: typer.Context, source: Source, destination: Destination, side: Side = 256, workers: Workers = None
) -> None:
    """Decode and shrink a folder of pictures once, so that training reads them without decoding."""
    check_alone("pack")
    with without_gc():
        from accel_train.data.packing.pack import ShardDone, begin
        from accel_train.data.packing.pack import pack as pack_shards

    signals: StopSignals = context.obj
    source, destination = expand_home(source), expand_home(destination)
    packing = begin(source, destination, side)
    for note in packing.notes:
        _say(f"note: {printable(note)}")
    pictures = sum(map(len, packing.listing.splits.values()))
    _say(_plan(packing, source, pictures))
    done, shards, verified = 0, 0, 0
    signals.training_began(alone=True)  # finished shards are kept: a signal need not end this at once
    with _progress(pictures) as show:
        for event in pack_shards(packing, workers or available_cores()):
            if isinstance(event, ShardDone):
                shards, verified = shards + 1, verified + event.was_there
            else:
                done += event
                show(done)
            if signals.reason:
                break
    if signals.reason:
        packed = f"{shards:,} of {quantity(packing.shards, 'shard')} packed"
        _say(f"stopped by {signals.reason.name}: {packed}; run the same command again to resume")
        raise typer.Exit(signals.reason.exit_code)
    _say(_summary(destination, pictures, shards, verified))


def _plan(packing: "Packing", source: Path, pictures: int) -> str:
    listing = packing.listing
    counts = ", ".join(f"{split} {len(found):,}" for split, found in listing.splits.items())
    ignored = f"; {quantity(listing.ignored_files, 'other file')} ignored" * bool(listing.ignored_files)
    return printable(f"packing {source}: {quantity(pictures, 'picture')} ({counts}){ignored}")


def _summary(destination: Path, pictures: int, shards: int, verified: int) -> str:
    if verified == shards:
        result = f"is complete: {quantity(pictures, 'picture')}, all {quantity(shards, 'shard')} verified by sha256"
    else:
        result = f"holds {quantity(pictures, 'picture')} in {quantity(shards, 'shard')}"
        result += f", {verified:,} of them packed earlier and verified by sha256" * bool(verified)
    return printable(f"{destination} {result}; train on it with: accel_train train --data {quoted(destination)}")


@contextmanager
def _progress(pictures: int) -> Iterator[ShowProgress]:
    """Yield a function that shows progress: a bar on a terminal, else a line every 10 s."""
    began = time.monotonic()

    def left(done: int) -> str:
        return f"{rough_duration((time.monotonic() - began) * (pictures - done) / max(1, done))} left"

    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        next_line = began + _SECONDS_BETWEEN_LINES

        def write_line(done: int) -> None:
            nonlocal next_line
            if time.monotonic() >= next_line:
                _say(f"{done:,} of {quantity(pictures, 'picture')}, {left(done)}")
                next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

        yield write_line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    # Without auto-refresh: its thread could hold a lock while workers are forked.
    columns = (BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    bar = Progress(*columns, auto_refresh=False, transient=True, expand=True)
    task = bar.add_task("", total=pictures, left="")

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


def _say(line: str) -> None:
    """Print a line, unless the terminal or the reader of the pipe has gone, which does not end the command."""
    with suppress(OSError):
        typer.echo(line)
