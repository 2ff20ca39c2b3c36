"""Takes the folder of a run, and brings back what the run goes on from."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.checkpointer import Trained, load_tensors, read_state
from accel_train.checkpoints.run_folder import CHECKPOINTS, METRICS, WEIGHTS
from accel_train.distributed import accelerator as distributed
from accel_train.errors import UserError
from accel_train.run.build import Run
from accel_train.run.describe import config_text, describe
from accel_train.system.atomic_files import clean, write_file
from accel_train.system.folder_lock import FolderLock
from accel_train.training.state import Position


def take_folder(run: Run, lock: FolderLock) -> None:
    """Make and lock the folder, and remove what a killed run has left half written.

    Raises:
        UserError: another run writes there.
    """
    folder, place = run.place.folder, run.place
    run_folder.make(folder)
    lock.acquire()
    clean(folder)
    clean(folder / CHECKPOINTS)
    if place.checkpoint:
        store.set_aside(folder / CHECKPOINTS, place.checkpoint)
    if place.stored is None or place.source != folder or place.stored["epochs"] != run.config.epochs:
        run_folder.write(folder, config_text(run), describe(run))


def go_on(run: Run, trained: Trained) -> tuple[Position | None, list[str]]:
    """Collective: take over a checkpoint's state, and what the run had written up to it.

    Returns the position, None at the beginning, and a sentence for each checkpoint that could not be used.

    Raises:
        UserError: what it should go on from cannot be used.
    """
    source, checkpoint = run.place.source, run.place.checkpoint
    problems: list[str] = []
    if source and not checkpoint:
        checkpoint, problems = newest_checkpoint(run, source)
    position, kept = restore(run, trained, checkpoint) if checkpoint else (None, {"metrics_bytes": 0})
    if position and run.accelerator.is_main_process:
        run.task.epoch_sums.load(position.epoch_sums)
    distributed.on_main(
        run.accelerator, lambda: _cut_files(run.place.folder, source, checkpoint, kept["metrics_bytes"])
    )
    where = checkpoint.name if checkpoint else "the beginning: none is whole"
    return position, [f"{problem}; falling back to {where}" for problem in problems]


def newest_checkpoint(run: Run, folder: Path) -> tuple[Path | None, list[str]]:
    """Collective: return a run's newest checkpoint that is whole, and what is wrong with each newer one."""
    found: tuple[Path | None, list[str]] = distributed.on_main(
        run.accelerator, lambda: store.newest_whole(folder / CHECKPOINTS)
    )
    return found


def restore(run: Run, trained: Trained, checkpoint: Path) -> tuple[Position, dict[str, Any]]:
    """Load a checkpoint that was verified; return its position and what else was kept with it.

    Raises:
        UserError: it does not fit this run.
    """
    position, kept = read_state(checkpoint)
    if run.config.exact and kept["identity"] != run.identity:
        raise UserError(
            f"--exact: {checkpoint} was computed on {kept['identity']}, this is {run.identity}",
            "resume with the same --threads and on the same kind of device",
        )
    load_tensors(checkpoint, trained)
    run.task.statistics.reload()
    if run.accelerator.scaler and kept["scaler"]:
        run.accelerator.scaler.load_state_dict(kept["scaler"])
    return position, kept


def _cut_files(folder: Path, source: Path | None, checkpoint: Path | None, metrics_bytes: int) -> None:
    """Make the files that grow and change with a run those that it had at the checkpoint."""
    metrics = (source or folder) / METRICS
    history = metrics.read_bytes()[:metrics_bytes] if metrics.exists() else b""
    write_file(folder / METRICS, history)
    best = folder / WEIGHTS["best"]
    if checkpoint and (checkpoint / best.name).exists():
        write_file(best, (checkpoint / best.name).read_bytes())
    else:
        with suppress(FileNotFoundError):
            best.unlink()
