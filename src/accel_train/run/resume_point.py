"""Finds the folder of a run and what to resume from, and checks that it is the same run."""

import os
import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.run_folder import Description, read_description
from accel_train.config.fields import Config, Placement, marked
from accel_train.config.import_string import CODE, trusted
from accel_train.config.load import read_config
from accel_train.config.options import FREE_ON_RESUME, FROM_RUN, PLACEMENT, ResolvedConfig, TrainConfig
from accel_train.data.contents import Contents
from accel_train.errors import UserError
from accel_train.history.files import CHECKPOINTS, CONFIG
from accel_train.loggers.text import option_value

UNNAMED = ("auto", "never")
"""Values of --resume that name no run."""
_DATA = frozenset({"data", "labels"})
"""Fields that name the data; those of another name may be the same."""
_PLACES_OF_DATA = _DATA | {"data_dir"}
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
    description: Description | None = None
    """The model and the data of `source`."""

    @property
    def contents(self) -> Contents | None:
        """What the data of `source` contained."""
        return self.description.contents if self.description else None

    @property
    def model(self) -> str | None:
        """The model of `source`."""
        return self.description.model if self.description else None


def fill_from_run(asked: TrainConfig, origins: dict[str, str]) -> tuple[TrainConfig, dict[str, str]]:
    """Return the config with the values of the run that --resume names, where none are given, and their origins.

    Values of placement are not taken over.

    Raises:
        UserError: there is no such run, it names code, or a value that decides its result is given and another.
    """
    if asked.resume in UNNAMED:
        return asked, origins
    source, _ = _named_source(Path(asked.resume))
    stored = read_config(source / CONFIG, ResolvedConfig)
    given = {name for name in origins if getattr(asked, name) is not None}
    was, now = stored.model_dump(mode="json"), asked.model_dump(mode="json")
    compared = given - FREE_ON_RESUME - _DATA - _found_by_search(stored)
    if different := [(name, was[name], now[name]) for name in sorted(compared) if was[name] != now[name]]:
        raise _other_run(source, different, given, way_on="leave out --resume to start a new one")
    for name in CODE:
        if name not in given:
            trusted(getattr(stored, name), None, flag(name), source)
    values = {name: getattr(stored, name) for name in TrainConfig.model_fields.keys() - PLACEMENT - given}
    return asked.model_copy(update=values), dict.fromkeys(values, FROM_RUN) | origins


def find_resume_point(output: Path | None, resume: str, name: str, same: Callable[[ResumePoint], bool]) -> ResumePoint:
    """Return where to write and what to resume from.

    `name` is the name of a folder under runs/; `same` returns True if a stored run is this one.

    Raises:
        UserError: there is nothing to resume from, or the folder cannot be used.
    """
    if resume not in UNNAMED:
        return _named(Path(resume), output)
    if output is None:
        folders, free = run_folder.numbered(name)
        unfinished = [folder for folder in folders if resume == "auto" and not run_folder.is_finished(folder)]
        points = (_latest_in(folder, may_be_damaged=folder != folders[0]) for folder in unfinished)
        found = next((point for point in points if point.stored is not None and same(point)), None)
        return found or ResumePoint(run_folder.check_destination(free))
    run_folder.check_destination(output)
    if resume == "auto":
        return _latest_in(output)
    if run_folder.contains_run(output):
        raise UserError(f"--output {output} holds a run", "give another folder, or leave --resume never out")
    return ResumePoint(output)


def same_run(
    config: ResolvedConfig,
    epochs: int | None,
    stored: dict[str, Any],
    folder: Path,
    *,
    given: Collection[str] = (),
    compare_data: bool = True,
) -> ResolvedConfig:
    """Return the stored config with the values in which this one may differ.

    `epochs` is the number that the user asked for, if any, and `given` the fields that are no defaults; `folder` is the
    run's. Without `compare_data` the data may have another name.

    Raises:
        UserError: other fields differ, or fewer epochs are asked for.
    """
    if different := differences(config, stored, compare_data=compare_data):
        raise _other_run(folder, different, given, way_on="give another --output to start a new one")
    if epochs is not None and epochs < stored["epochs"]:
        raise UserError(
            f"--epochs {epochs} is fewer than the {stored['epochs']} of the run in {folder}",
            "a run can be extended, not shortened; give another --output",
        )
    names = FREE_ON_RESUME if compare_data else FREE_ON_RESUME | _DATA
    free = {name: value for name, value in config.model_dump().items() if name in names}
    return ResolvedConfig(**{**stored, **free, "epochs": epochs or stored["epochs"], "accumulate": None})


def differences(
    config: ResolvedConfig, stored: dict[str, Any], *, compare_data: bool = True
) -> list[tuple[str, Any, Any]]:
    """Return each field that makes this another run than the stored one, with the stored value and this one."""
    now = config.model_dump(mode="json")
    skipped = {name for name in _FOUND_LATER if now[name] is None} | _found_by_search(config)
    if not compare_data:
        skipped |= _DATA
    compared = now.keys() - FREE_ON_RESUME - skipped
    return [(name, stored.get(name), now[name]) for name in sorted(compared) if stored.get(name) != now[name]]


def decisive_values(config: ResolvedConfig) -> dict[str, Any]:
    """Return the values that decide a run's result, as JSON: those of its checkpoints are equal.

    Left out are those of the data, whose content a checkpoint holds, and those that a resumed run has found out.
    """
    found_later = {*_FOUND_LATER, *_found_by_search(config)}
    return config.model_dump(mode="json", exclude={*_DATA, *found_later, *FREE_ON_RESUME})


def decisive_options(config: Config) -> dict[str, str]:
    """Return the options, by flag, that all processes must be started with: those that are no defaults.

    What only places the run may differ between machines, and where the data are.
    """
    given = config.model_dump(mode="json", exclude_defaults=True)
    may_differ = marked(type(config), Placement) | _PLACES_OF_DATA
    return {flag(name): option_value(value) for name, value in given.items() if name not in may_differ}


def _found_by_search(config: ResolvedConfig) -> set[str]:
    """Return the fields that --auto-micro-batch decides; a resumed run keeps what was found."""
    return {"batch_size"} if config.auto_micro_batch else set()


def _other_run(folder: Path, different: list[tuple[str, Any, Any]], given: Collection[str], way_on: str) -> UserError:
    """Return the error that names what differs: what is given, or if that is all the same, the defaults."""
    named = [each for each in different if each[0] in given] or different
    default = "" if named[0][0] in given else " (not given)"
    listed = ", ".join(f"{flag(name)} {_shown(now)}{default} instead of {_shown(was)}" for name, was, now in named)
    resume = f"accel_train train --resume {shlex.quote(str(folder))}"
    return UserError(
        f"{folder} holds a run of another configuration: {listed}", f"`{resume}` continues that run; {way_on}"
    )


def _shown(value: Any) -> str:
    return "unset" if value is None else option_value(value)


def flag(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")


def _latest_in(folder: Path, *, may_be_damaged: bool = False) -> ResumePoint:
    """Return the resume point of a run that has saved, else a new run's; also if its description is damaged and may."""
    checkpoints = folder / CHECKPOINTS
    if not run_folder.contains_run(folder) or not any(checkpoints.glob("update_*")):
        return ResumePoint(folder)
    try:
        return _resuming(folder, folder, None)
    except UserError:
        if not may_be_damaged:
            raise
        return ResumePoint(folder)


def _named(path: Path, output: Path | None) -> ResumePoint:
    source, checkpoint = _named_source(path)
    folder = run_folder.check_destination(output or source)
    if folder.absolute() != source.absolute() and run_folder.contains_run(folder):
        raise UserError(f"--output {folder} holds another run than --resume {path}", "give a new or empty folder")
    if checkpoint and (problem := store.problem(path)):
        raise UserError(f"--resume {path}: {problem}", "give another checkpoint, or the run's folder for its newest")
    return _resuming(folder, source, checkpoint)


def _named_source(path: Path) -> tuple[Path, Path | None]:
    """Return the folder of the run that a path names, and the checkpoint if it is one."""
    full = path.absolute()  # `.` has no name
    is_checkpoint = store.is_checkpoint(full) and not run_folder.contains_run(path)
    source = Path(os.path.normpath(path / "../..")) if is_checkpoint else path
    if not path.is_dir() or not run_folder.contains_run(source):
        raise UserError(f"--resume {path} is no run and no checkpoint of one", "give auto, never, or one of runs/*")
    return source, source / full.parent.name / full.name if is_checkpoint else None


def _resuming(folder: Path, source: Path, checkpoint: Path | None) -> ResumePoint:
    stored = read_config(source / CONFIG, ResolvedConfig).model_dump(mode="json")
    return ResumePoint(folder, source, checkpoint, stored, read_description(source))
