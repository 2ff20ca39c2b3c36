"""Builds a run again as it was, to replay its updates; writes nothing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accel_train.checkpoints import store
from accel_train.checkpoints.run_folder import read_description
from accel_train.checkpoints.state_file import StoredState, read_state
from accel_train.config.load import make_config, read_config
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan
from accel_train.config.replay_options import ReplayConfig
from accel_train.config.strategies import STRATEGY_OPTIONS
from accel_train.errors import UserError
from accel_train.history.config_file import read_settings
from accel_train.history.files import CHECKPOINTS, CONFIG
from accel_train.history.run import RunHistory, read_run
from accel_train.loggers.text import quantity, quoted
from accel_train.run.build import Run, build_run
from accel_train.run.identity import identity_changes
from accel_train.run.resume_point import ResumePoint, fill_from_run
from accel_train.run.same_data import refuse_changed
from accel_train.system.folder_lock import is_locked

_PLACED = ("device", "backend", "strategy", *STRATEGY_OPTIONS, "activation_checkpointing")
"""Fields of placement that may change the last bits: a replay takes them from the run."""


@dataclass(frozen=True)
class StoredRun:
    """What a run has stored, and where a replay of one of its updates starts."""

    history: RunHistory
    checkpoint: Path | None
    """The newest valid one before the update; None: the beginning."""
    newest: StoredState | None
    """The state of the newest valid checkpoint of all."""
    later: list[int]
    """The updates of the checkpoints that hold the update, valid or not."""
    notes: list[str]


def open_stored(folder: Path, update: int) -> StoredRun:
    """Find what a run has stored around an update.

    Raises:
        UserError: the folder is no run's, another process writes to it, or the run has not come so far.
    """
    history = read_run(folder)
    if is_locked(folder):
        raise UserError(f"a run is writing to {folder}", "wait for its end, or replay a copy of the folder")
    checkpoints = folder / CHECKPOINTS
    newest, _ = store.newest_valid(checkpoints)
    state = read_state(newest) if newest else None
    done = max([p.update for p in history.metrics.progress] + [epoch.update for epoch in history.epochs], default=0)
    done = max(done, state.position.update if state else 0)
    if not 1 <= update <= done:
        raise UserError(
            f"--update {update}: {folder} has done {quantity(done, 'update')}", f"give one from 1 to {done}"
        )
    checkpoint, problems = store.newest_valid(checkpoints, before=update)
    fallback = checkpoint.name if checkpoint else "the beginning"
    notes = [f"{problem}; starting from {fallback}" for problem in problems]
    return StoredRun(history, checkpoint, state, store.updates_from(checkpoints, update), notes)


def build_again(stored: StoredRun, config: ReplayConfig, origins: dict[str, str]) -> tuple[Run, list[str]]:
    """Collective: build the run as it was at its start, or at a checkpoint; return also in what it may differ.

    Raises:
        UserError: it cannot be built here, or its data have changed.
    """
    folder = stored.history.folder
    asked, given = _as_it_was(stored.history, config, origins)
    description = read_description(folder)
    point = ResumePoint(folder)
    if stored.checkpoint:
        values = read_config(folder / CONFIG, ResolvedConfig).model_dump(mode="json")
        point = ResumePoint(folder, folder, stored.checkpoint, values, description)
    else:
        asked = asked.model_copy(update={"resume": "never"})
    run = build_run(asked, given, find=lambda *_: point)
    refuse_changed(ResumePoint(folder, folder, description=description), run.contents, **_splits(run))
    return run, _differences(stored, run)


def first_schedule(history: RunHistory, plan: Plan) -> tuple[int, Plan]:
    """Return up to which update a run that was extended at its end followed its first schedule, and a plan with that.

    0 if it was not extended, or before its end.
    """
    epochs = history.started.get("epochs")
    if not isinstance(epochs, int) or epochs >= plan.epochs:
        return 0, plan
    updates = epochs * plan.updates_per_epoch
    first = replace(plan, learning_rate=replace(plan.learning_rate, total_updates=updates))
    logged = [event for event in history.metrics.progress if event.update <= updates]
    fits = all(event.lr == first.learning_rate(event.update - 1) for event in logged)
    return (updates, first) if fits else (0, plan)


def _splits(run: Run) -> dict[str, Any]:
    return {"train": run.data.train, "val": run.data.val}


def _as_it_was(
    history: RunHistory, config: ReplayConfig, origins: dict[str, str]
) -> tuple[TrainConfig, dict[str, str]]:
    """Return the config of the run, and the origins of its values; what is given here wins."""
    folder = history.folder
    settings, threads = read_settings(folder), history.started.get("threads")
    values = {name: settings[name].value for name in _PLACED if name in settings}
    values |= {"threads": threads} if isinstance(threads, int) else {}
    values |= {name: getattr(config, name) for name in origins if name in TrainConfig.model_fields}
    values |= {"resume": str(folder), "workers": config.workers, "watch_every": 0, "auto_micro_batch": False}
    placed = dict.fromkeys(values, f"the run in {quoted(folder)}")
    own = {name: origin for name, origin in origins.items() if name in TrainConfig.model_fields}
    return fill_from_run(make_config(TrainConfig, values, {**placed, **own}), own)


def _differences(stored: StoredRun, run: Run) -> list[str]:
    """Return why the last bits may not be those of the run, a sentence each."""
    notes, started = [], stored.history.started
    was = started.get("world_size")
    if was != run.processes.count:
        notes.append(f"{was} processes became {run.processes.count}: images and losses of a process are not compared")
    epochs = started.get("epochs")
    if epochs != run.plan.epochs and not first_schedule(stored.history, run.plan)[0]:
        notes.append(
            f"{epochs} epochs became {run.plan.epochs} at an unknown update: earlier learning rates were others"
        )
    before = stored.newest.identity if stored.newest else started.get("identity")
    if isinstance(before, dict) and (changed := identity_changes(before, run.identity)):
        notes.append(f"the last bits may differ: {changed}")
    if started.get("strategy") != run.processes.strategy_name:
        notes.append(f"the run was computed by {started.get('strategy')}, here by {run.processes.strategy_name}")
    return notes
