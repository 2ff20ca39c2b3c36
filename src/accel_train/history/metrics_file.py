"""Reads metrics.jsonl back as the events that were written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

from accel_train.events import EpochByRank, EpochEnd, Profiled, Progress, RunEnded, RunStarted
from accel_train.history.files import METRICS
from accel_train.loggers.text import quantity
from accel_train.system.records import checked, parse_json
from accel_train.system.regular_files import read_regular

_Event = Progress | EpochByRank | EpochEnd | Profiled | RunEnded
_KINDS = {kind.kind: kind for kind in get_args(_Event)}


@dataclass
class Metrics:
    """The events of a run in the order of its updates; of what was trained twice, those of the last attempt."""

    started: Mapping[str, Any] = field(default_factory=dict)
    """The record of :class:`RunStarted`, its parts flattened; empty if it cannot be read."""
    progress: list[Progress] = field(default_factory=list)
    by_rank: list[EpochByRank] = field(default_factory=list)
    epochs: list[EpochEnd] = field(default_factory=list)
    profiles: list[Profiled] = field(default_factory=list)
    ends: list[RunEnded] = field(default_factory=list)
    """One, or none if the run has not finished or was continued since."""
    times: list[str] = field(default_factory=list)
    """When each record was written, ISO 8601, UTC."""
    problems: list[str] = field(default_factory=list)
    """What cannot be read, a sentence each."""


def read_metrics(folder: Path) -> Metrics:
    """Read the metrics of a run as far as they can be read.

    A last line without a line break is no problem: it is being written, or its run was killed meanwhile.
    """
    metrics, damaged = Metrics(), list[str]()
    try:
        lines = read_regular(folder / METRICS, math.inf).split(b"\n")[:-1]
    except OSError as error:
        metrics.problems.append(f"{METRICS} cannot be read: {error.strerror}")
        return metrics
    for number, line in enumerate(lines, start=1):
        try:
            _add(metrics, parse_json(line))
        except ValueError as error:
            damaged.append(f"line {number:,} of {METRICS} {error}")
    if damaged:
        more = len(damaged) - 1
        metrics.problems.append(damaged[0] + f", as {quantity(more, 'other line is', 'other lines are')}" * (more > 0))
    elif not metrics.started:
        metrics.problems.append(f"{METRICS} has no record of the start of the run")
    return metrics


def _add(metrics: Metrics, record: Any) -> None:
    """Add a record; those of unknown kinds are a newer version's.

    Raises:
        ValueError: it is no record of a run.
    """
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise ValueError("is damaged: it has no kind")
    if record["kind"] == RunStarted.kind:
        metrics.started = record
    elif kind := _KINDS.get(record["kind"]):
        _append(metrics, checked(_as_written(kind, record), kind))
    if isinstance(time := record.get("time"), str):
        metrics.times.append(time)


def _append(metrics: Metrics, event: _Event) -> None:
    """Append an event; if there is one of its kind and update, or a later one, drop all since: they were repeated."""
    lists: dict[type, list[Any]] = {
        Progress: metrics.progress,
        EpochByRank: metrics.by_rank,
        EpochEnd: metrics.epochs,
        Profiled: metrics.profiles,
        RunEnded: metrics.ends,
    }
    own, update = lists[type(event)], _update(event)
    metrics.ends.clear()
    if own and _update(own[-1]) >= update:
        for events in lists.values():
            while events and _update(events[-1]) >= update:
                events.pop()
    own.append(event)


def _update(event: _Event) -> int:
    if isinstance(event, RunEnded):
        return event.updates
    return event.last_update if isinstance(event, Profiled) else event.update


def _as_written(kind: Any, record: Any) -> Any:
    """Return the values of a record's fields as they were: JSON lacks NaN and infinities, which are null there."""
    if not isinstance(record, dict):
        return record
    values: dict[str, Any] = {}
    for each in fields(kind):
        if each.name in record:
            value = record[each.name]
            (inner, *_) = get_args(each.type) or (None,)
            if value is None and each.type is float:
                value = math.nan
            elif is_dataclass(inner) and isinstance(value, list):
                value = [_as_written(inner, one) for one in value]
            values[each.name] = value
    return values
