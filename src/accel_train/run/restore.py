"""Takes the folder of a run, and loads the checkpoint that it resumes from."""

import math
from pathlib import Path

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.checkpointer import TrainedTensors, load_tensors
from accel_train.checkpoints.run_folder import CHECKPOINTS, LOGS, METRICS, WEIGHTS
from accel_train.checkpoints.state_file import StoredState, read_state
from accel_train.data.contents import files_of
from accel_train.errors import UserError, shown
from accel_train.run.build import Run
from accel_train.run.describe import config_text, describe_model
from accel_train.run.identity import identity_changes, identity_text
from accel_train.run.resume_point import decisive_values, flag
from accel_train.system.atomic_files import clean, write_file
from accel_train.system.regular_files import read_regular
from accel_train.training.state import TrainingState


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


def _is_changed(run: Run) -> bool:
    stored = run.resume_point.stored
    assert stored
    return any(stored[name] != getattr(run.config, name) for name in ("data", "epochs"))


def resume(run: Run, trained: TrainedTensors) -> tuple[TrainingState | None, list[str]]:
    """Collective: load the checkpoint to resume from, and cut the run's files back to it.

    Returns the state, None for a run that starts from scratch, and a sentence for each damaged checkpoint or file.

    Raises:
        UserError: the checkpoint cannot be used.
    """
    source, checkpoint = run.resume_point.source, run.resume_point.checkpoint
    problems: list[str] = []
    if source and not checkpoint:
        checkpoint, problems = newest_checkpoint(run, source)
    stored = restore(run, trained, checkpoint) if checkpoint else None
    if stored and run.processes.is_main:
        run.training.updater.epoch_sums.load(stored.position.epoch_sums)
    folder, metrics_bytes = run.resume_point.folder, stored.metrics_bytes if stored else 0
    lost = run.processes.on_main(lambda: _cut_files(folder, source, checkpoint, metrics_bytes))
    if stored and (changed := identity_changes(stored.identity, run.identity)):
        lost.append(f"the last bits may differ from those of an uninterrupted run: {changed}")
    fallback = checkpoint.name if checkpoint else "the beginning: no checkpoint is valid"
    return stored.position if stored else None, [
        *(f"{problem}; falling back to {fallback}" for problem in problems),
        *lost,
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
    load_tensors(checkpoint, trained)
    run.training.batch_norm.reload()
    scaler = run.processes.accelerator.scaler
    if scaler and stored.scaler:
        scaler.load_state_dict(stored.scaler)
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


def _cut_files(folder: Path, source: Path | None, checkpoint: Path | None, metrics_bytes: int) -> list[str]:
    """Restore the metrics and best weights that the run had at the checkpoint; return what is lost, in sentences."""
    metrics = (source or folder) / METRICS
    try:
        history = read_regular(metrics, math.inf)[:metrics_bytes]
    except FileNotFoundError:
        history = b""
    except OSError as error:
        raise UserError(f"cannot read {metrics}: {error.strerror}", "remove it: only its records are lost") from None
    missing = metrics_bytes - len(history)
    if missing:
        history = history[: history.rfind(b"\n") + 1]
    write_file(folder / METRICS, history)
    best = folder / WEIGHTS["best"]
    if checkpoint and (checkpoint / best.name).exists():
        write_file(best, read_regular(checkpoint / best.name, math.inf))
    else:
        best.unlink(missing_ok=True)
    return [f"{metrics} lacks {missing:,} bytes that it had at {checkpoint}: their records are lost"] * bool(missing)
