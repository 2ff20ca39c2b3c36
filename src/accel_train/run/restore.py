"""Takes the folder of a run, and loads the checkpoint that it resumes from."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.checkpointer import TrainedTensors, load_tensors
from accel_train.checkpoints.state_file import StoredState, read_state
from accel_train.config.plan import Plan
from accel_train.data.contents import files_of
from accel_train.errors import UserError, shown
from accel_train.history.files import CHECKPOINTS, LOGS, METRICS, WEIGHTS
from accel_train.loggers.text import learning_rate, quantity
from accel_train.run.bad_images import write_bad_images
from accel_train.run.build import Run
from accel_train.run.describe import config_text, describe_model
from accel_train.run.identity import identity_changes, identity_text
from accel_train.run.resume_point import decisive_values, flag
from accel_train.system.atomic_files import clean, write_file
from accel_train.system.regular_files import read_regular
from accel_train.training.state import TrainingState


@dataclass(frozen=True)
class FoundState:
    """What a run resumes from."""

    checkpoint: Path | None
    """None for a run that starts from scratch."""
    state: StoredState | None
    notices: list[str]
    """What the user should know, one sentence each."""


def take_folder(run: Run) -> None:
    """Remove unfinished files of a killed run from the folder, and describe the run there."""
    point = run.resume_point
    (point.folder / LOGS).mkdir(parents=True, exist_ok=True)
    clean(point.folder, run_folder.FILES)
    clean(point.folder / CHECKPOINTS, store.FOLDERS)
    if point.checkpoint:
        store.set_aside_newer(point.folder / CHECKPOINTS, point.checkpoint)
    if point.source != point.folder or _is_changed(run):
        files = files_of(train=run.data.train, val=run.data.val)
        run_folder.write(point.folder, config_text(run), describe_model(run), files)
        write_bad_images(point.folder, run.left_out)


def _is_changed(run: Run) -> bool:
    stored = run.resume_point.stored
    assert stored
    return any(stored[name] != getattr(run.config, name) for name in ("data", "epochs"))


def resume(run: Run, trained: TrainedTensors) -> tuple[TrainingState | None, list[str]]:
    """Collective: load the checkpoint to resume from, and cut the run's files back to it.

    Returns the state, None for a run that starts from scratch, and sentences for the user.

    Raises:
        UserError: the checkpoint cannot be used.
    """
    found = find_state(run)
    if found.checkpoint and found.state:
        _load(run, trained, found.checkpoint, found.state)
        if run.processes.is_main:
            run.training.updater.epoch_sums.load(found.state.position.epoch_sums)
    run.processes.on_main(lambda: _cut_files(run, found))
    return found.state.position if found.state else None, found.notices


def find_state(run: Run) -> FoundState:
    """Collective: find the checkpoint to resume from and check its state; change nothing.

    Raises:
        UserError: the checkpoint cannot be used.
    """
    point, problems = run.resume_point, list[str]()
    checkpoint = point.checkpoint
    if point.source and not checkpoint:
        checkpoint, problems = newest_checkpoint(run, point.source)
    state = _checked_state(run, checkpoint) if checkpoint else None
    fallback = checkpoint.name if checkpoint else "the beginning: no checkpoint is valid"
    notices = [f"{problem}; falling back to {fallback}" for problem in problems]
    if state and (lost := run.processes.on_main(lambda: _lost_records(run, state))):
        notices.append(f"{lost} that it had at {checkpoint}: their records are lost")
    if state and (changed := identity_changes(state.identity, run.identity)):
        notices.append(f"the last bits may differ from those of an uninterrupted run: {changed}")
    if point.stored:
        update = state.position.update if state else 0
        notices += extension(run.plan, point.stored["epochs"], update)
    return FoundState(checkpoint, state, notices)


def extension(plan: Plan, epochs_before: int, update: int) -> list[str]:
    """Return what becomes of the learning rate if a run gets more epochs, or that nothing is left to train."""
    updates_before = epochs_before * plan.updates_per_epoch
    if plan.epochs == epochs_before:
        epochs = quantity(plan.epochs, "epoch")
        more = f"the run is finished: {epochs}; --epochs {plan.epochs + 1} or more continues it"
        return [more] * (update == updates_before)
    now, before = plan.learning_rate, replace(plan.learning_rate, total_updates=updates_before)
    recomputed = now(updates_before - 1) != before(updates_before - 1)
    what = f"is recomputed over {quantity(plan.epochs, 'epoch')}" if recomputed else "stays as it was"
    if update == updates_before:
        then = f"it was {learning_rate(before(update - 1))} at the end of the finished run"
    else:
        then = f"without more epochs {learning_rate(before(update))}"
    return [
        f"epochs {epochs_before} → {plan.epochs}: the {now.rule} schedule {what}: "
        f"the learning rate of update {update + 1:,} is {learning_rate(now(update))} ({then})"
    ]


def newest_checkpoint(run: Run, folder: Path) -> tuple[Path | None, list[str]]:
    """Collective: return a run's newest valid checkpoint, and what is wrong with each newer one."""
    found: tuple[Path | None, list[str]] = run.processes.on_main(lambda: store.newest_valid(folder / CHECKPOINTS))
    return found


def restore(run: Run, trained: TrainedTensors, checkpoint: Path) -> StoredState:
    """Load a verified checkpoint, and return its state.

    Raises:
        UserError: it does not fit this run.
    """
    stored = _checked_state(run, checkpoint)
    _load(run, trained, checkpoint, stored)
    return stored


def _load(run: Run, trained: TrainedTensors, checkpoint: Path, stored: StoredState) -> None:
    load_tensors(checkpoint, trained)
    run.training.updater.batch_norm.reload()
    scaler = run.processes.accelerator.scaler
    if scaler and stored.scaler:
        scaler.load_state_dict(stored.scaler)


def _checked_state(run: Run, checkpoint: Path) -> StoredState:
    """Read the state of a verified checkpoint, and check that it is one of this run."""
    stored = read_state(checkpoint)
    if run.config.exact and (changed := identity_changes(stored.identity, run.identity)):
        was, now = identity_text(stored.identity), identity_text(run.identity)
        raise UserError(
            f"--exact: {checkpoint} was computed on {was}; this is {now}", f"resume where nothing differs: {changed}"
        )
    if stored.data != run.contents:
        raise UserError(
            f"{checkpoint} was trained on other data than those of the run in {run.resume_point.source}",
            "give a checkpoint of that run",
        )
    _check_run(run, stored, checkpoint)
    return stored


def _check_run(run: Run, stored: StoredState, checkpoint: Path) -> None:
    """Check that a run of this config and plan can have been there, with all sums of its epoch."""
    hint = "give another checkpoint, or remove this one"
    config = decisive_values(run.config)
    if different := next((name for name in config if stored.config.get(name) != config[name]), None):
        was, now = shown(stored.config.get(different)), shown(config[different])
        raise UserError(f"{checkpoint} is of another run: {flag(different)} {was} instead of {now}", hint)
    position, plan, sums = stored.position, run.plan, run.training.updater.epoch_sums
    began = position.epochs * plan.updates_per_epoch
    in_epoch = position.epochs <= plan.epochs and began <= position.update <= began + plan.updates_per_epoch
    has_epochs = not position.epochs or (position.best and position.last)
    if not in_epoch or not has_epochs or len(position.epoch_sums) != len(sums.tensor):
        raise UserError(
            f"{checkpoint} is of no run of {plan.updates_per_epoch:,} updates per epoch: "
            f"it holds update {position.update:,} after {position.epochs:,} epochs",
            hint,
        )


def _history(run: Run) -> tuple[Path, bytes]:
    """Return the file of the metrics of the run to resume, and what it holds."""
    metrics = (run.resume_point.source or run.resume_point.folder) / METRICS
    try:
        return metrics, read_regular(metrics, math.inf)
    except FileNotFoundError:
        return metrics, b""
    except OSError as error:
        raise UserError(f"cannot read {metrics}: {error.strerror}", "remove it: only its records are lost") from None


def _lost_records(run: Run, stored: StoredState) -> str | None:
    metrics, history = _history(run)
    missing = stored.metrics_bytes - len(history)
    return f"{metrics} lacks {missing:,} bytes" if missing > 0 else None


def _cut_files(run: Run, found: FoundState) -> None:
    """Restore the metrics and best weights that the run had at the checkpoint."""
    folder, size = run.resume_point.folder, found.state.metrics_bytes if found.state else 0
    history = _history(run)[1][:size]
    if len(history) < size:
        history = history[: history.rfind(b"\n") + 1]
    write_file(folder / METRICS, history)
    best = folder / WEIGHTS["best"]
    if found.checkpoint and (found.checkpoint / best.name).exists():
        write_file(best, read_regular(found.checkpoint / best.name, math.inf))
    else:
        best.unlink(missing_ok=True)
