"""Adds up where the time of recorded updates went."""

from collections.abc import Iterable, Mapping

Interval = tuple[float, float]
"""Start and end."""

_PHASES = ("forward", "backward", "optimizer", "data wait")
"""In the order in which they claim time: on a GPU, waiting for data costs none while an earlier batch is computed."""


def phase_times(
    marks: Mapping[str, Iterable[Interval]], communication: Iterable[Interval], computation: Iterable[Interval]
) -> dict[str, float]:
    """Return the time of each phase, of communication that no computation covers, and the rest as "other".

    They add up to the time from the first mark to the last, without what is marked as validation.
    """
    marked = union(interval for intervals in marks.values() for interval in intervals)
    left = without([(marked[0][0], marked[-1][1])], union(marks.get("validation", ())))
    claims = {"communication": without(union(communication), union(computation))}
    claims |= {name: union(marks.get(name, ())) for name in _PHASES}
    times = {}
    for name, intervals in claims.items():
        rest = without(left, intervals)
        times[name] = length(left) - length(rest)
        left = rest
    return times | {"other": length(left)}


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return disjoint intervals, in order, that cover the same."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def without(intervals: list[Interval], taken: list[Interval]) -> list[Interval]:
    """Return what remains of intervals; both are disjoint and in order."""
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
    """Return the sum of the lengths of disjoint intervals."""
    return sum(end - start for start, end in intervals)
