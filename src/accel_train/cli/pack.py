"""The command ``pack``."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from accel_train.distributed.environment import available_cores
from accel_train.loggers.text import printable, quantity
from accel_train.system.process import no_garbage
from accel_train.system.signals import Interruption

if TYPE_CHECKING:
    from accel_train.data.packing.pack import Packing

Source = Annotated[
    Path, typer.Argument(metavar="SRC", help="Folder of pictures: CLASS/… or train/CLASS/… and val/CLASS/….")
]
Destination = Annotated[Path, typer.Argument(metavar="DST", help="Folder to pack to, for train --data DST.")]
Side = Annotated[int, typer.Option(min=1, help="Pixels of a picture's shorter side; smaller ones stay as they are.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes that decode. Unset: one for each core.")]

_SECONDS_BETWEEN_LINES = 10.0


class Show(Protocol):
    def __call__(self, done: int) -> None:
        """Show how many pictures are done."""
        ...


def pack(
    context: typer.Context, source: Source, destination: Destination, side: Side = 256, workers: Workers = None
) -> None:
    """Decode a folder of pictures once, make them smaller and store them so that training reads them at once."""
    with no_garbage():
        from accel_train.data.packing.pack import ShardDone, begin
        from accel_train.data.packing.pack import pack as pack_shards

    interruption: Interruption = context.obj
    packing = begin(source, destination, side)
    if packing.note:
        typer.echo(f"note: {printable(packing.note)}")
    pictures = sum(map(len, packing.pictures.values()))
    typer.echo(_plan(packing, source, pictures))
    done, shards, verified = 0, 0, 0
    interruption.training_began()  # what is whole stays: a signal need not end this at once
    with _progress(pictures) as show:
        for fact in pack_shards(packing, workers or available_cores()):
            if isinstance(fact, ShardDone):
                shards, verified = shards + 1, verified + fact.was_there
            else:
                done += fact
                show(done)
            if interruption.reason:
                break
    if interruption.reason:
        typer.echo(
            f"stopped by {interruption.reason.name}: {shards:,} of {quantity(packing.shards, 'shard')} packed; "
            "the same command goes on"
        )
        raise typer.Exit(interruption.reason.exit_code)
    typer.echo(_summary(destination, pictures, shards, verified))


def _plan(packing: "Packing", source: Path, pictures: int) -> str:
    counts = ", ".join(f"{split} {len(found):,}" for split, found in packing.pictures.items())
    ignored = f"; {packing.ignored_files:,} other files passed over" * bool(packing.ignored_files)
    return printable(f"packing {source}: {quantity(pictures, 'picture')} ({counts}){ignored}")


def _summary(destination: Path, pictures: int, shards: int, verified: int) -> str:
    if verified == shards:
        done = f"is whole: {quantity(pictures, 'picture')}, all {quantity(shards, 'shard')} verified by sha256"
    else:
        done = f"holds {quantity(pictures, 'picture')} in {quantity(shards, 'shard')}"
        done += f", {verified:,} of them from before, verified by sha256" * bool(verified)
    return printable(f"{destination} {done}; train on it with: accel_train train --data {destination}")


@contextmanager
def _progress(pictures: int) -> Iterator[Show]:
    """Yield what shows progress: a bar on a terminal, now and then a line elsewhere."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

        def write_line(done: int) -> None:
            nonlocal next_line
            if time.monotonic() >= next_line:
                typer.echo(f"{done:,} of {quantity(pictures, 'picture')}")
                next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

        yield write_line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    # Only what is done redraws the bar: workers would be forked while a thread of its own held a lock.
    columns = (BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, auto_refresh=False, transient=True, expand=True) as bar:
        task = bar.add_task("", total=pictures)
        yield lambda done: bar.update(task, completed=done, refresh=True)
