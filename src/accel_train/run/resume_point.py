"""Finds out where a run writes and what it goes on from, and whether it is still the same run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.run_folder import CHECKPOINTS, CONFIG
from accel_train.config.load import read_yaml
from accel_train.config.options import FREE_ON_RESUME, TrainConfig
from accel_train.errors import UserError

_FOUND_LATER = ("global_batch_size", "image_size", "precision")
"""Fields that data, model or launcher decide where the user has not."""


@dataclass(frozen=True)
class Place:
    """Where a run writes, and what it goes on from."""

    folder: Path
    source: Path | None = None
    """Folder of the run that it goes on from."""
    checkpoint: Path | None = None
    """The one asked for by name; else the newest whole one of `source`."""
    stored: dict[str, Any] | None = None
    """The config of `source`."""


def find_place(output: Path | None, resume: str, name: str, same: Callable[[dict[str, Any]], bool]) -> Place:
    """Return where to write and what to go on from.

    `name` is what a folder under runs/ is called; `same` tells whether a stored config is that of this run.

    Raises:
        UserError: there is nothing to go on from, or no place to write.
    """
    if resume not in ("auto", "never"):
        return _named(Path(resume), output)
    if output is None:
        latest, free = run_folder.numbered(name)
        if resume == "auto" and latest and not run_folder.is_finished(latest):
            place = _going_on(latest)
            if place.stored is not None and same(place.stored):
                return place
        return Place(run_folder.check_place(free))
    run_folder.check_place(output)
    if resume == "auto":
        return _going_on(output)
    if run_folder.holds_a_run(output):
        raise UserError(f"--output {output} holds a run", "give another folder, or leave --resume never out")
    return Place(output)


def same_run(config: TrainConfig, epochs: int | None, stored: dict[str, Any], where: Path) -> TrainConfig:
    """Return the stored config placed as this one says, or refuse if it is another run's.

    `epochs` is how many the user asked for, if any; `where` is the run's folder.

    Raises:
        UserError: fields differ that do not only place the run, or fewer epochs are asked for.
    """
    if different := differences(config, stored):
        listed = ", ".join(f"{flag(name)} {now} instead of {was}" for name, was, now in different)
        raise UserError(
            f"{where} holds a run of another configuration: {listed}",
            "start the same command again to go on with that run, or give another --output",
        )
    if epochs is not None and epochs < stored["epochs"]:
        raise UserError(
            f"--epochs {epochs} is fewer than the {stored['epochs']} of the run in {where}",
            "a run can be made longer, not shorter; give another --output",
        )
    placed = {name: value for name, value in config.model_dump().items() if name in FREE_ON_RESUME}
    return TrainConfig(**{**stored, **placed, "epochs": epochs or stored["epochs"], "accumulate": None})


def differences(config: TrainConfig, stored: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return each field that makes this another run than the stored one, its value there and here."""
    now = config.model_dump(mode="json")
    skipped = {name for name in _FOUND_LATER if now[name] is None}
    if config.auto_micro_batch:
        skipped.add("batch_size")  # was searched for, and is kept
    compared = now.keys() - FREE_ON_RESUME - skipped
    return [(name, stored.get(name), now[name]) for name in sorted(compared) if stored.get(name) != now[name]]


def flag(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")


def _going_on(folder: Path) -> Place:
    """Return the place of a run that has saved, or of a new one."""
    checkpoints = folder / CHECKPOINTS
    if not run_folder.holds_a_run(folder) or not any(checkpoints.glob("update_*")):
        return Place(folder)
    return Place(folder, folder, None, read_yaml(folder / CONFIG, set(TrainConfig.model_fields)))


def _named(path: Path, output: Path | None) -> Place:
    is_checkpoint = path.name.startswith("update_")
    source = path.parent.parent if is_checkpoint else path
    if not path.is_dir() or not run_folder.holds_a_run(source):
        raise UserError(f"--resume {path} is no run and no checkpoint of one", "give auto, never, or one of runs/*")
    folder = run_folder.check_place(output or source)
    if folder.absolute() != source.absolute() and run_folder.holds_a_run(folder):
        raise UserError(f"--output {folder} holds another run than --resume {path}", "give a new or empty folder")
    stored = read_yaml(source / CONFIG, set(TrainConfig.model_fields))
    if is_checkpoint and (problem := store.problem(path)):
        raise UserError(f"--resume {path}: {problem}", "give another checkpoint, or the run's folder for its newest")
    return Place(folder, source, path if is_checkpoint else None, stored)
