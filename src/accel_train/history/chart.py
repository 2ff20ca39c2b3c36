"""Draws curves over one another with letters, for a terminal of any kind."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

_SEVERAL = "*"
"""Where curves meet."""


@dataclass(frozen=True)
class Curve:
    """A curve, drawn with one letter."""

    letter: str
    points: Sequence[tuple[float, float]]
    """x and y, by rising x; those that are not finite are left out."""
    in_steps: bool = False
    """Whether each value stays until the next point, as a learning rate does until the next update."""


def chart_lines(
    title: str, curves: Sequence[Curve], width: int, height: int = 12, x_text: Callable[[float], str] = "{:g}".format
) -> Iterator[str]:
    """Yield the lines of a chart with the axes' ends labelled; none if no curve has two points."""
    curves = [replace(c, points=[(x, y) for x, y in c.points if math.isfinite(y)]) for c in curves]
    curves = [curve for curve in curves if len(curve.points) > 1]
    if not curves:
        return
    xs, ys = zip(*(point for curve in curves for point in curve.points), strict=True)
    low, high = min(ys), max(ys)
    labels = {0: f"{high:.4g}", height - 1: f"{low:.4g}"} if high > low else {height // 2: f"{low:.4g}"}
    margin = max(map(len, labels.values()))
    columns = max(10, width - margin - 2)
    rows = [[" "] * columns for _ in range(height)]
    for curve in curves:
        for column in range(columns):
            x = min(xs) + (max(xs) - min(xs)) * column / (columns - 1)
            if (y := _at(curve, x)) is not None:
                row = round((high - y) / (high - low) * (height - 1)) if high > low else height // 2
                rows[row][column] = curve.letter if rows[row][column] == " " else _SEVERAL
    yield title
    for number, cells in enumerate(rows):
        yield f"{labels.get(number, '').rjust(margin)} |{''.join(cells)}".rstrip()
    first, last = x_text(min(xs)), x_text(max(xs))
    yield " " * (margin + 2) + first + last.rjust(columns - len(first))


def _at(curve: Curve, x: float) -> float | None:
    """Return a curve's height between its points; None outside of them."""
    for (left, low), (right, high) in pairwise(curve.points):
        if left <= x < right and curve.in_steps:
            return low
        if left <= x <= right:
            return low + (high - low) * (x - left) / ((right - left) or 1)
    return None
