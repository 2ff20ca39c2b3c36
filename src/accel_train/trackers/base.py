"""What a tracker is given, and what it provides."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from accel_train.events import EpochEnd, Progress, RunEnded

TRACKED = (Progress, EpochEnd, RunEnded)
"""The events whose numbers are tracked."""
KEYS = tuple(f"{kind.kind}/{field.name}" for kind in TRACKED for field in fields(kind))
"""All that a value may be called in a store."""


@dataclass(frozen=True)
class TrackedRun:
    """The run that is tracked."""

    folder: Path
    """Absolute."""
    identity: str
    """What the stores of services know it by: the same after each restart."""
    project: str | None
    """What the user has named."""
    config: Mapping[str, Any]
    """The resolved config, as JSON values."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def parameters(self) -> dict[str, bool | int | float | str]:
        """The values of the config that are given, lists as text: trackers take scalars."""
        scalar = (bool, int, float, str)
        given = {name: value for name, value in self.config.items() if value is not None}
        return {name: value if isinstance(value, scalar) else str(value) for name, value in given.items()}


@dataclass(frozen=True)
class Row:
    """The numbers of one record of metrics.jsonl."""

    kind: str
    update: int
    time: float
    """Seconds since 1970."""
    values: Mapping[str, float]

    @property
    def by_key(self) -> dict[str, float]:
        """The values by KIND/NAME, which trackers group."""
        return {f"{self.kind}/{name}": value for name, value in self.values.items()}


class Tracker(Protocol):
    """Sends rows to one store. Any method may raise any exception, or take long."""

    def open(self, run: TrackedRun) -> Mapping[str, int]:
        """Continue the tracked run, or begin it; return the last update that the store holds of each key.

        A store in the run folder is begun again, and holds nothing.
        """

    def log(self, row: Row) -> None:
        """Store the values of a row."""

    def add_pictures(self, pictures: Mapping[str, Path], update: int) -> None:
        """Store PNG files by their names."""

    def close(self, *, complete: bool) -> None:
        """Store all that is left; `complete` if the run has ended, and not only stopped or failed."""
