"""The command ``check``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accel_train.cli.pack import LabelColumn, Labels, MaxPixels, Workers
from accel_train.cli.progress import decode_all, say
from accel_train.config.defaults import MOST_PIXELS
from accel_train.config.fields import expand_home
from accel_train.distributed.environment import available_cores
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.loggers.data_lines import class_table, size_lines
from accel_train.loggers.text import printable, quantity
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.data.sources.encoded_images import TableSource
    from accel_train.data.sources.picture_files import FolderSource

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="Folder of pictures, packed or not, or hf:NAME, as for train.")
]
_FOUND_BAD = 1
"""Exit code."""


def check(
    data: Data,
    labels: Labels = None,
    label_column: LabelColumn = None,
    max_pixels: MaxPixels = MOST_PIXELS,
    workers: Workers = None,
) -> None:
    """Decode all pictures of a folder and list those that cannot be read, with the reasons; exit code 1 if any."""
    check_alone("check")
    with without_gc():
        from accel_train.data.open import list_encoded
        from accel_train.data.packing.manifest import is_packed
        from accel_train.data.packing.verify import damaged_shards
        from accel_train.data.sources.base import LabelsFrom

    data = expand_home(data)
    if is_packed(data):
        if labels or label_column:
            raise UserError(f"--labels and --label-column have no effect on {data}, which is packed", "leave them out")
        _report_shards(data, *damaged_shards(data))
        return
    listing = list_encoded(str(data), LabelsFrom(labels and expand_home(labels), label_column))
    for note in listing.notes:
        say(f"note: {printable(note)}")
    bad, pictures = _report(data, listing.splits, max_pixels, workers or available_cores())
    if not bad:
        say(f"all {quantity(pictures, 'picture')} can be read")
        return
    say(
        f"{bad:,} of {quantity(pictures, 'picture')} cannot be read: repair or remove them, "
        "or leave them out of training with --on-bad-image skip"
    )
    raise typer.Exit(_FOUND_BAD)


def _report(
    data: Path, splits: "Mapping[str, FolderSource | TableSource]", max_pixels: int, workers: int
) -> tuple[int, int]:
    """Print what the splits contain, and all bad pictures; return their number, and that of all."""
    from accel_train.data.bad_images import Pictures

    pictures = Pictures(list(splits.values()))
    counts = ", ".join(f"{split} {len(source):,}" for split, source in splits.items())
    say(printable(f"checking {data}: {quantity(len(pictures), 'picture')} ({counts})"))
    bad, sizes = decode_all(pictures, max_pixels, workers)
    classes = next(iter(splits.values())).classes
    for line in (
        *class_table(classes, {split: source.counts.tolist() for split, source in splits.items()}),
        *size_lines(sizes),
        *(f"{pictures.name(index)}: {reason}" for index, reason in bad),
    ):
        say(printable(line))
    return len(bad), len(pictures)


def _report_shards(folder: Path, damaged: Sequence[str], shards: int, repair: str) -> None:
    if not damaged:
        say(printable(f"{folder} is complete: all {quantity(shards, 'shard')} verified by sha256"))
        return
    for name in damaged:
        say(printable(f"{folder / name}: damaged or missing"))
    say(printable(f"{len(damaged):,} of {quantity(shards, 'shard')} cannot be used: repair them with: {repair}"))
    raise typer.Exit(_FOUND_BAD)
