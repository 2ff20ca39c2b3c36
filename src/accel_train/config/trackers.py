"""The trackers, one row each: class and library."""

import importlib.util
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from accel_train.config.suggest import did_you_mean, suggestions
from accel_train.errors import UserError, shown

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
    has_projects: bool
    """Whether it lists runs by project, which ``--tracker-project`` names."""
    variables: Mapping[str, tuple[str, ...]] = {}
    """Environment variables that the library reads, with the values that it takes."""


_OF_WANDB = {
    "WANDB_MODE": ("online", "offline", "shared", "disabled", "dryrun", "run"),
    "WANDB_RESUME": ("allow", "must", "never", "auto"),
    "WANDB_CONSOLE": ("auto", "off", "wrap", "redirect", "wrap_raw", "wrap_emu"),
}
"""Of wandb 0.31."""


TRACKERS: dict[str, TrackerSpec] = {
    "tensorboard": TrackerSpec("accel_train.trackers.tensorboard:TensorBoard", "tensorboard", False),
    "wandb": TrackerSpec("accel_train.trackers.wandb:WandB", "wandb", True, _OF_WANDB),
    "trackio": TrackerSpec("accel_train.trackers.trackio:Trackio", "trackio", True),
    "mlflow": TrackerSpec("accel_train.trackers.mlflow:MLflow", "mlflow", True),
    "csv": TrackerSpec("accel_train.trackers.csv:Csv", None, False),
}
"""By the value of ``--tracker``."""


def chosen(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the trackers of a run, each once."""
    return tuple(dict.fromkeys(name for name in names or () if name != NO_TRACKER))


def check_trackers(names: Iterable[str] | None, *, project_of: str | None) -> None:
    """Check that trackers can be used; `project_of` is the origin of their project.

    Raises:
        UserError: a library is missing or its environment wrong, or a flag names a project for trackers without any.
    """
    check_installed(names)
    check_environment(names)
    if project_of == "flag":  # a file may name one for trackers to come
        check_project(names)


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


def check_environment(names: Iterable[str] | None) -> None:
    """Check the environment variables of trackers.

    Raises:
        UserError: one has a value that its library does not take, such as none.
    """
    for name in chosen(names):
        for variable, values in TRACKERS[name].variables.items():
            found = os.environ.get(variable)
            if found is None or found in values:
                continue
            problem = "is empty" if not found else f"is {shown(found)}"
            raise UserError(
                f"--tracker {name}: the environment variable {variable} {problem}",
                did_you_mean(suggestions(found, values), f"set it to {', '.join(values)}, or unset it"),
            )


def check_project(names: Iterable[str] | None) -> None:
    """Check that ``--tracker-project``, which was given, has an effect with these trackers.

    Raises:
        UserError: none of them has projects.
    """
    if not any(TRACKERS[name].has_projects for name in chosen(names)):
        having = ", ".join(name for name, tracker in TRACKERS.items() if tracker.has_projects)
        trackers = f"--tracker {','.join(chosen(names)) or NO_TRACKER}"
        raise UserError(
            f"--tracker-project has no effect with {trackers}: only {having} have projects",
            "leave it out, or add one of these as --tracker",
        )
