"""The command ``pack``."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from accel_train.cli.progress import decode_all, progress, say
from accel_train.config.defaults import MOST_PIXELS
from accel_train.config.fields import expand_home
from accel_train.distributed.environment import available_cores
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.loggers.text import printable, quantity, quoted
from accel_train.system.atomic_files import refuse_stdout
from accel_train.system.process import without_gc
from accel_train.system.signals import StopSignals

if TYPE_CHECKING:
    from accel_train.data.packing.pack import Packing
    from accel_train.data.sources.base import Listing
    from accel_train.data.sources.picture_files import FolderSource

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
Labels = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File with the labels of the pictures, as for train.")
]
LabelColumn = Annotated[str | None, typer.Option(help="Column of the labels, as for train.")]
OnBadImage = Annotated[
    Literal["stop", "skip"],
    typer.Option(
        show_default=False,
        help="What to do about pictures that cannot be read: name them and pack nothing of their shards, or decode all "
        "pictures before and leave them out. Default: stop.",
    ),
]
MaxPixels = Annotated[
    int,
    typer.Option(min=1, show_default=False, help=f"Most pixels of a picture. Default: {MOST_PIXELS:,}."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes that decode. Default: one per core.")]


def pack(  # noqa: PLR0913, PLR0917 - an option each
    context: typer.Context,
    source: Source,
    destination: Destination,
    side: Side = 256,
    labels: Labels = None,
    label_column: LabelColumn = None,
    on_bad_image: OnBadImage = "stop",
    max_pixels: MaxPixels = MOST_PIXELS,
    workers: Workers = None,
) -> None:
    """Decode and shrink a folder of pictures once, so that training reads them without decoding."""
    check_alone("pack")
    with without_gc():
        from accel_train.data.packing.pack import begin
        from accel_train.data.sources.base import LabelsFrom

    signals: StopSignals = context.obj
    source, destination = expand_home(source), expand_home(destination)
    refuse_stdout(destination, "DST", "folder")
    cores = workers or available_cores()
    labels_from = LabelsFrom(labels and expand_home(labels), label_column)
    skip = partial(_leave_out, max_pixels=max_pixels, workers=cores) if on_bad_image == "skip" else None
    packing = begin(source, destination, side, labels_from, skip)
    for note in packing.notes:
        say(f"note: {printable(note)}")
    pictures = sum(map(len, packing.listing.splits.values()))
    say(_plan(packing, source, pictures))
    signals.training_began(alone=True)  # finished shards are kept: a signal need not end this at once
    shards, verified = _write(packing, pictures, cores, max_pixels, signals)
    if signals.reason:
        packed = f"{shards:,} of {quantity(packing.shards, 'shard')} packed"
        say(f"stopped by {signals.reason.name}: {packed}; run the same command again to resume")
        raise typer.Exit(signals.reason.exit_code)
    say(_summary(destination, pictures, shards, verified))


def _leave_out(listing: "Listing[FolderSource]", max_pixels: int, workers: int) -> "Listing[FolderSource]":
    """Return a listing without the pictures that cannot be read, which are printed."""
    from accel_train.data.bad_images import Pictures

    pictures = Pictures(list(listing.splits.values()))
    say(f"checking {quantity(len(pictures), 'picture')}")
    bad, _ = decode_all(pictures, max_pixels, workers)
    for index, reason in bad:
        say(printable(f"left out: {pictures.name(index)}: {reason}"))
    ids = pictures.kept({index for index, _ in bad})
    kept = {split: source.only(of) for (split, source), of in zip(listing.splits.items(), ids, strict=True)}
    for split, source in kept.items():
        gone = (source.counts == 0) & (listing.splits[split].counts > 0)
        if gone.any() and split != "test":
            name = source.classes[int(gone.argmax())]
            raise UserError(f"no picture of the class {name} can be read", "repair them, or remove the class")
    return replace(listing, splits=kept)


def _write(packing: "Packing", pictures: int, workers: int, max_pixels: int, signals: StopSignals) -> tuple[int, int]:
    """Pack until a signal comes; return the number of finished shards, and of those that were there before."""
    from accel_train.data.packing.pack import pack as pack_shards
    from accel_train.data.packing.shard_writer import ShardDone, UnreadablePicture

    done, shards, verified = 0, 0, 0
    unreadable: list[str] = []
    try:
        with progress(pictures) as show:
            for event in pack_shards(packing, workers, max_pixels):
                if isinstance(event, ShardDone):
                    shards, verified = shards + 1, verified + event.was_there
                elif isinstance(event, UnreadablePicture):
                    unreadable.append(event.message)
                elif isinstance(event, int):
                    done += event
                    show(done)
                if signals.reason:
                    break
    finally:
        for message in sorted(unreadable)[len(unreadable) == 1 :]:  # the error names a single one
            say(printable(message))
    return shards, verified


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
