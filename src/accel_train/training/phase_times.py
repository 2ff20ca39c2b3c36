"""Splits the time of profiled updates into phases: arithmetic of intervals."""

from collections.abc import Iterable, Mapping

Interval = tuple[float, float]
"""Start and end."""

_PHASES = ("forward", "backward", "optimizer", "data wait")
"""In order of precedence: on a GPU, waiting for data costs nothing while an earlier batch is computed."""


def phase_times(
    spans: Mapping[str, Iterable[Interval]], communication: Iterable[Interval], computation: Iterable[Interval]
) -> dict[str, float]:
    """Return the time of each phase, of communication that no computation overlaps, and the rest as "other".

    They sum to the time from the first span to the last, excluding validation.
    """
    covered = union(interval for intervals in spans.values() for interval in intervals)
    left = without([(covered[0][0], covered[-1][1])], union(spans.get("validation", ())))
    claims = {"communication": without(union(communication), union(computation))}
    claims |= {name: union(spans.get(name, ())) for name in _PHASES}
    times = {}
    for name, intervals in claims.items():
        rest = without(left, intervals)
        times[name] = length(left) - length(rest)
        left = rest
    return times | {"other": length(left)}


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return sorted disjoint intervals with the same union."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def without(intervals: list[Interval], taken: list[Interval]) -> list[Interval]:
    """Return the difference of two unions of intervals; both are sorted and disjoint."""
    remaining: list[Interval] = []
    first = 0
    for start, end in intervals:
        while first < len(taken) and taken[first][1] <= start:
            first += 1
        at, number = start, first
        while number < len(taken) and taken[number][0] < end:
            if taken[number][0] > at:
                remaining.append((at, taken[number][0]))
            at = max(at, taken[number][1])
            number += 1
        if at < end:
            remaining.append((at, end))
    return remaining


def length(intervals: list[Interval]) -> float:
    """Return the total length of disjoint intervals."""
    return sum(end - start for start, end in intervals)
