"""Keeps the store of a tracker equal to metrics.jsonl of its run, each value there once."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from accel_train.history.files import METRICS
from accel_train.trackers.base import Row, TrackedRun, Tracker
from accel_train.trackers.metrics_tail import MetricsTail


class End(NamedTuple):
    """The end of a run, or of its process."""

    complete: bool
    """True if all is trained, False if the run was stopped or has failed."""
    pictures: Mapping[str, Path]
    """PNG files of a complete run, by name."""


class Sender:
    """Sends rows to a tracker; values that its store holds are left out.

    A run that is killed repeats the updates since its checkpoint. What a service has of them cannot be taken back: it
    keeps those values, which the same run computes again.
    """

    def __init__(self, tracker: Tracker, run: TrackedRun) -> None:
        self._tracker = tracker
        self._held = dict(tracker.open(run))
        self.update = 0
        """The last update sent."""
        self.ended = False
        """Whether the final results have been sent, and were not held before."""

    def send(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.update = row.update
            new = {
                name: value
                for name, value in row.values.items()
                if row.update > self._held.get(f"{row.kind}/{name}", 0)
            }
            if new:
                self._tracker.log(replace(row, values=new))
                self._held |= {f"{row.kind}/{name}": row.update for name in new}
                self.ended = row.kind == "end"


def follow(tracker: Tracker, run: TrackedRun, wait: Callable[[], End | None]) -> None:
    """Send a tracker what the metrics of a run hold and get, until `wait` returns the end.

    It returns None after a moment if nothing has happened.
    """
    with closing(MetricsTail(run.folder / METRICS)) as metrics:
        sender = Sender(tracker, run)
        end = None
        while end is None:
            sender.send(metrics.read())
            end = wait()
        sender.send(metrics.read())
    if end.pictures and sender.ended:
        tracker.add_pictures(end.pictures, sender.update)
    tracker.close(complete=end.complete)
