"""What the folder of a run tells of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.errors import UserError
from accel_train.events import EpochEnd, RunEnded
from accel_train.history.files import CONFIG, METRICS, WEIGHTS
from accel_train.history.metrics_file import Metrics, read_metrics


@dataclass(frozen=True)
class RunHistory:
    """A run as far as it has come; its config with origins: :func:`accel_train.history.config_file.read_settings`."""

    folder: Path
    metrics: Metrics
    has_weights: bool
    """Whether it has written the weights of its last epoch, perhaps before it was continued."""

    @property
    def started(self) -> Mapping[str, Any]:
        """The record of the run's start: config, plan, hardware, data; empty if it cannot be read."""
        return self.metrics.started

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved config by field, as JSON values."""
        config = self.started.get("config")
        return config if isinstance(config, dict) else {}

    @property
    def epochs(self) -> list[EpochEnd]:
        """The epochs that it has trained."""
        return self.metrics.epochs

    @property
    def best(self) -> EpochEnd | None:
        """The epoch whose weights are exported as the best."""
        return next((epoch for epoch in reversed(self.epochs) if epoch.best), None)

    @property
    def end(self) -> RunEnded | None:
        """The final results; None if it has not finished."""
        return self.metrics.ends[-1] if self.metrics.ends else None

    @property
    def finished(self) -> bool:
        """Whether all is trained and the weights are written."""
        return self.end is not None and self.has_weights

    @property
    def problems(self) -> list[str]:
        """What of it cannot be read, a sentence each."""
        return self.metrics.problems


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, perhaps a damaged one."""
    return (folder / CONFIG).is_file() or (folder / METRICS).is_file()


def read_run(folder: Path) -> RunHistory:
    """Read what a run has stored, as far as it can be read: see its problems.

    Raises:
        UserError: the folder holds no run.
    """
    if not is_run(folder):
        what = "holds no run" if folder.is_dir() else "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}", "give the folder of a run: accel_train runs lists those under runs/")
    return RunHistory(folder, read_metrics(folder), (folder / WEIGHTS["last"]).is_file())
