"""The trackers, one row each: class and library."""

import importlib.util
from collections.abc import Iterable
from typing import NamedTuple

from accel_train.errors import UserError

NO_TRACKER = "none"
"""Value of ``--tracker`` that stands for none, not even those of the run that is resumed."""
PROJECT = "accel_train"
"""Where services list a run if the user names nothing else."""


class TrackerSpec(NamedTuple):
    """All that a run needs to know of a tracker before it starts."""

    make: str
    """Import string of its class."""
    library: str | None
    """The module that it needs; `pip install 'accel_train[NAME]'` installs it."""


TRACKERS: dict[str, TrackerSpec] = {
    "tensorboard": TrackerSpec("accel_train.trackers.tensorboard:TensorBoard", "tensorboard"),
    "wandb": TrackerSpec("accel_train.trackers.wandb:WandB", "wandb"),
    "trackio": TrackerSpec("accel_train.trackers.trackio:Trackio", "trackio"),
    "mlflow": TrackerSpec("accel_train.trackers.mlflow:MLflow", "mlflow"),
    "csv": TrackerSpec("accel_train.trackers.csv:Csv", None),
}
"""By the value of ``--tracker``."""


def chosen(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the trackers of a run, each once."""
    return tuple(dict.fromkeys(name for name in names or () if name != NO_TRACKER))


def check_installed(names: Iterable[str] | None) -> None:
    """Check that the libraries of trackers are there, without importing them.

    Raises:
        UserError: one is missing.
    """
    for name in chosen(names):
        library = TRACKERS[name].library
        if library and importlib.util.find_spec(library) is None:
            raise UserError(
                f"--tracker {name} needs the package {library}, which is not installed",
                f"pip install 'accel_train[{name}]', or choose another: --tracker csv needs none",
            )
