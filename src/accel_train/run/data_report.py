"""Describes the images of all splits: what cannot be read, colours, and what is in two splits."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from accel_train.data.duplicates import MOST_DIFFERENT_BITS, Pair, alike, same_bytes
from accel_train.data.examine import Examined, can_compare_likeness, examine
from accel_train.data.sources.base import DataSet, Source, Subset
from accel_train.data.sources.encoded_images import TableSource
from accel_train.data.sources.labels import labels_of
from accel_train.data.sources.picture_files import FolderSource
from accel_train.loggers.data_lines import class_table, size_lines
from accel_train.loggers.text import printable, quantity

_MOST_LISTED = 5
"""Of the duplicates of one kind; pictures that cannot be read are all listed."""


def splits_of(data: DataSet) -> dict[str, Source]:
    """Return the sources by split."""
    splits = {"train": data.train, "val": data.val}
    return splits | ({"test": data.test} if data.test is not None else {})


def class_lines(splits: Mapping[str, Source]) -> Iterator[str]:
    """Yield a table of the images of each class; nothing if a user's own source does not tell."""
    classes = tuple(map(str, splits["train"].classes))
    labels = {split: labels_of(source) for split, source in splits.items()}
    counts = {
        split: [int((labels_N == label).sum()) for label in range(len(classes))]
        for split, labels_N in labels.items()
        if labels_N is not None
    }
    if counts:
        yield from class_table(classes, counts)


def examine_all(
    splits: Mapping[str, Source], most_pixels: int, workers: int, show: Callable[[int], None]
) -> dict[str, list[Examined]]:
    """Examine the images of all splits; `show` gets the number done."""
    found: dict[str, list[Examined]] = {}
    done = 0
    for split, source in splits.items():
        found[split] = []
        for some in examine(source, most_pixels, workers):
            found[split] += some
            done += len(some)
            show(done)
    return found


def report_lines(splits: Mapping[str, Source], found: Mapping[str, Sequence[Examined]]) -> Iterator[str]:
    """Yield what is found of sizes, colours, duplicates and unreadable images."""
    everything = [image for images in found.values() for image in images]
    yield from size_lines([(image.height, image.width) for image in everything if image.height])
    yield from _colour_lines(found["train"])
    name = {split: _namer(source) for split, source in splits.items()}
    yield from _pair_lines(same_bytes(found), name, "with the bytes of one of another split")
    if can_compare_likeness():
        kind = f"with nearly the look of one of another split (pHash, at most {MOST_DIFFERENT_BITS} of 64 bits differ)"
        yield from _pair_lines(alike(found), name, kind)
    else:
        yield "images that look alike are not searched for: pip install 'accel_train[preview]'"
    bad = [(split, n, image) for split, images in found.items() for n, image in enumerate(images) if image.problem]
    yield f"{quantity(len(bad), 'image')} of {len(everything):,} cannot be read" + ":" * bool(bad)
    yield from (f"  {split}/{name[split](number)}: {image.problem}" for split, number, image in bad)


def _colour_lines(images: Iterable[Examined]) -> Iterator[str]:
    """Yield mean and standard deviation of the channels; each image has the same weight."""
    known = [image for image in images if image.mean]
    if not known:
        return
    mean, square = (
        [sum(values) / len(known) for values in zip(*(getattr(image, name) for image in known), strict=True)]
        for name in ("mean", "square")
    )
    std = [math.sqrt(max(0.0, second - first**2)) for first, second in zip(mean, square, strict=True)]
    yield f"training pixels: mean {numbers(mean)}, std {numbers(std)}"


def numbers(values: Iterable[float]) -> str:
    """Return the values of channels, fractions of full white."""
    return ", ".join(f"{value:.3f}" for value in values)


def _pair_lines(pairs: Iterable[Pair], name: Mapping[str, Callable[[int], str]], kind: str) -> Iterator[str]:
    found = list(pairs)
    yield f"{quantity(len(found), 'image')} {kind}" + ":" * bool(found)
    for (one, first), (other, second) in found[:_MOST_LISTED]:
        yield printable(f"  {other}/{name[other](second)} and {one}/{name[one](first)}")
    if len(found) > _MOST_LISTED:
        yield f"  and {len(found) - _MOST_LISTED:,} more"


def _namer(source: Source) -> Callable[[int], str]:
    """Return a function that names an image: by its path, its row or its number."""
    if isinstance(source, Subset):
        inner, ids = _namer(source.source), source.ids
        return lambda number: inner(int(ids[number]))
    if isinstance(source, FolderSource):
        return lambda number: source.paths[number]
    if isinstance(source, TableSource):
        return lambda number: str(source.rows[number])
    return str
