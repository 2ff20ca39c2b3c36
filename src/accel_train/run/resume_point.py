"""Finds the folder of a run and what to resume from, and checks that it is the same run."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.run_folder import CHECKPOINTS, CONFIG, read_description
from accel_train.config.load import read_config
from accel_train.config.options import FREE_ON_RESUME, ResolvedConfig
from accel_train.data.contents import Contents
from accel_train.errors import UserError

_DATA = "data"
_FOUND_LATER = ("global_batch_size", "image_size")
"""Fields that the data or the model decide if the user has not."""


@dataclass(frozen=True)
class ResumePoint:
    """Where a run writes, and what it resumes from."""

    folder: Path
    source: Path | None = None
    """Folder of the run to resume from; None for a new run."""
    checkpoint: Path | None = None
    """The checkpoint asked for by name; None for the newest valid one of `source`."""
    stored: dict[str, Any] | None = None
    """The config of `source`."""
    contents: Contents | None = None
    """What the data of `source` contained."""


def find_resume_point(output: Path | None, resume: str, name: str, same: Callable[[ResumePoint], bool]) -> ResumePoint:
    """Return where to write and what to resume from.

    `name` is the name of a folder under runs/; `same` returns True if a stored run is this one.

    Raises:
        UserError: there is nothing to resume from, or the folder cannot be used.
    """
    if resume not in ("auto", "never"):
        return _named(Path(resume), output)
    if output is None:
        latest, free = run_folder.numbered(name)
        if resume == "auto" and latest and not run_folder.is_finished(latest):
            point = _latest_in(latest)
            if point.stored is not None and same(point):
                return point
        return ResumePoint(run_folder.check_destination(free))
    run_folder.check_destination(output)
    if resume == "auto":
        return _latest_in(output)
    if run_folder.contains_run(output):
        raise UserError(f"--output {output} holds a run", "give another folder, or leave --resume never out")
    return ResumePoint(output)


def same_run(
    config: ResolvedConfig, epochs: int | None, stored: dict[str, Any], folder: Path, *, compare_data: bool = True
) -> ResolvedConfig:
    """Return the stored config with the values in which this one may differ.

    `epochs` is the number that the user asked for, if any; `folder` is the run's. Without `compare_data` the data may
    have another name.

    Raises:
        UserError: other fields differ, or fewer epochs are asked for.
    """
    if different := differences(config, stored, compare_data=compare_data):
        listed = ", ".join(f"{flag(name)} {_shown(now)} instead of {_shown(was)}" for name, was, now in different)
        raise UserError(
            f"{folder} holds a run of another configuration: {listed}",
            "start the same command again to resume that run, or give another --output",
        )
    if epochs is not None and epochs < stored["epochs"]:
        raise UserError(
            f"--epochs {epochs} is fewer than the {stored['epochs']} of the run in {folder}",
            "a run can be extended, not shortened; give another --output",
        )
    names = FREE_ON_RESUME if compare_data else FREE_ON_RESUME | {_DATA}
    free = {name: value for name, value in config.model_dump().items() if name in names}
    return ResolvedConfig(**{**stored, **free, "epochs": epochs or stored["epochs"], "accumulate": None})


def differences(
    config: ResolvedConfig, stored: dict[str, Any], *, compare_data: bool = True
) -> list[tuple[str, Any, Any]]:
    """Return each field that makes this another run than the stored one, with the stored value and this one."""
    now = config.model_dump(mode="json")
    skipped = {name for name in _FOUND_LATER if now[name] is None}
    if config.auto_micro_batch:
        skipped.add("batch_size")  # the stored one was found by the search, and is kept
    if not compare_data:
        skipped.add(_DATA)
    compared = now.keys() - FREE_ON_RESUME - skipped
    return [(name, stored.get(name), now[name]) for name in sorted(compared) if stored.get(name) != now[name]]


def decisive_values(config: ResolvedConfig) -> dict[str, Any]:
    """Return the values that decide a run's result, as JSON: those of its checkpoints are equal.

    Left out are those of the data, whose content a checkpoint holds, and those that a resumed run has found out.
    """
    found_later = {*_FOUND_LATER, *(["batch_size"] if config.auto_micro_batch else [])}
    return config.model_dump(mode="json", exclude={_DATA, *found_later, *FREE_ON_RESUME})


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def flag(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")


def _latest_in(folder: Path) -> ResumePoint:
    """Return the resume point of a run that has saved, else a new run's."""
    checkpoints = folder / CHECKPOINTS
    if not run_folder.contains_run(folder) or not any(checkpoints.glob("update_*")):
        return ResumePoint(folder)
    return _resuming(folder, folder, None)


def _named(path: Path, output: Path | None) -> ResumePoint:
    full = path.absolute()  # `.` has no name
    is_checkpoint = store.is_checkpoint(full) and not run_folder.contains_run(path)
    source = Path(os.path.normpath(path / "../..")) if is_checkpoint else path
    if not path.is_dir() or not run_folder.contains_run(source):
        raise UserError(f"--resume {path} is no run and no checkpoint of one", "give auto, never, or one of runs/*")
    folder = run_folder.check_destination(output or source)
    if folder.absolute() != source.absolute() and run_folder.contains_run(folder):
        raise UserError(f"--output {folder} holds another run than --resume {path}", "give a new or empty folder")
    if is_checkpoint and (problem := store.problem(path)):
        raise UserError(f"--resume {path}: {problem}", "give another checkpoint, or the run's folder for its newest")
    return _resuming(folder, source, source / full.parent.name / full.name if is_checkpoint else None)


def _resuming(folder: Path, source: Path, checkpoint: Path | None) -> ResumePoint:
    stored = read_config(source / CONFIG, ResolvedConfig).model_dump(mode="json")
    return ResumePoint(folder, source, checkpoint, stored, read_description(source).contents)
