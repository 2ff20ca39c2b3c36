"""What a data set contains as lines of text: the counts of its classes, the sizes of its images."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import SupportsInt

from accel_train.loggers.text import printable


def class_table(classes: Sequence[str], counts: Mapping[str, Sequence[SupportsInt]]) -> Iterator[str]:
    """Yield the number of images of each class, by split."""
    columns = [("class", *map(printable, classes))]
    columns += [(split, *(f"{int(count):,}" for count in of_split)) for split, of_split in counts.items()]
    widths = [max(map(len, column)) for column in columns]
    for name, *numbers in zip(*columns, strict=True):
        yield "  ".join([name.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:], strict=True))])


def size_lines(sizes: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield a line about the heights and widths of images, in pixels, if there are any."""
    if sizes:
        heights, widths = zip(*sizes, strict=True)
        found = [(pick(widths), pick(heights)) for pick in (min, statistics.median_low, max)]
        least, median, most = (f"{width:,} × {height:,}" for width, height in found)
        yield f"width × height: {least} to {most} pixels, median {median}"
