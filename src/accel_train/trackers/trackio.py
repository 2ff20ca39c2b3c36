"""The tracker trackio: its store on this machine, or its server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accel_train.config.trackers import PROJECT
from accel_train.trackers.base import KEYS, Row, TrackedRun

_DIGITS = 6
"""Of the identity, after the run's name: trackio knows a run by its name."""


class Trackio:
    """Sends rows to trackio, which stores them in a thread of its own and reports no failure of that."""

    def open(self, run: TrackedRun) -> Mapping[str, int]:
        from accelerate.tracking import TrackioTracker

        self._project = run.project or PROJECT
        self._last = 0
        self._tracker = TrackioTracker(
            self._project,
            name=f"{run.name}-{run.identity[:_DIGITS]}",
            config=run.parameters,
            resume="allow",
            auto_log_gpu=False,
            auto_log_cpu=False,
            embed=False,
        )
        self._tracker.start()
        if self._is_local:
            return last_updates(self._logs())
        return dict.fromkeys(KEYS, self._tracker.tracker._safe_get_max_step_for_run() or 0)

    def log(self, row: Row) -> None:
        self._tracker.log(row.by_key, step=row.update)
        self._last = row.update

    def add_pictures(self, pictures: Mapping[str, Path], update: int) -> None:
        import trackio

        self._tracker.log({name: trackio.Image(str(path)) for name, path in pictures.items()}, step=update)

    def close(self, *, complete: bool) -> None:
        """Raise OSError if the store on this machine lacks what it was sent."""
        self._tracker.finish()
        stored = max(last_updates(self._logs()).values(), default=0) if self._is_local else self._last
        if stored < self._last:
            raise OSError(f"its store has got update {stored:,}, not update {self._last:,}")

    @property
    def _is_local(self) -> bool:
        return self._tracker.tracker.url is None

    def _logs(self) -> list[dict[str, Any]]:
        from trackio.sqlite_storage import SQLiteStorage

        found: list[dict[str, Any]] = SQLiteStorage.get_logs(self._project, self._tracker.tracker.name)
        return found


def last_updates(logs: list[dict[str, Any]]) -> dict[str, int]:
    """Return the last update of each key in the rows of a store."""
    held: dict[str, int] = {}
    for log in logs:
        for key in log:
            held[key] = max(held.get(key, 0), int(log["step"]))
    return held
