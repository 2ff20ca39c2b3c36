"""Takes the folder of a run, and loads the checkpoint that it resumes from."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from accel_train.checkpoints import run_folder, store
from accel_train.checkpoints.checkpointer import TrainedTensors, load_tensors, read_state
from accel_train.checkpoints.run_folder import CHECKPOINTS, LOGS, METRICS, WEIGHTS
from accel_train.data.contents import Contents, files_of
from accel_train.errors import UserError
from accel_train.run.build import Run
from accel_train.run.describe import config_text, describe_model
from accel_train.system.atomic_files import clean, write_file
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

    Returns the state, None for a run that starts from scratch, and a sentence for each damaged checkpoint.

    Raises:
        UserError: the checkpoint cannot be used.
    """
    source, checkpoint = run.resume_point.source, run.resume_point.checkpoint
    problems: list[str] = []
    if source and not checkpoint:
        checkpoint, problems = newest_checkpoint(run, source)
    state, record = restore(run, trained, checkpoint) if checkpoint else (None, {"metrics_bytes": 0})
    if state and run.processes.is_main:
        run.training.updater.epoch_sums.load(state.epoch_sums)
    folder = run.resume_point.folder
    run.processes.on_main(lambda: _cut_files(folder, source, checkpoint, record["metrics_bytes"]))
    fallback = checkpoint.name if checkpoint else "the beginning: no checkpoint is valid"
    return state, [f"{problem}; falling back to {fallback}" for problem in problems]


def newest_checkpoint(run: Run, folder: Path) -> tuple[Path | None, list[str]]:
    """Collective: return a run's newest valid checkpoint, and what is wrong with each newer one."""
    found: tuple[Path | None, list[str]] = run.processes.on_main(lambda: store.newest_valid(folder / CHECKPOINTS))
    return found


def restore(run: Run, trained: TrainedTensors, checkpoint: Path) -> tuple[TrainingState, dict[str, Any]]:
    """Load a verified checkpoint; return its state, and the record that holds it.

    Raises:
        UserError: it does not fit this run.
    """
    state, record = read_state(checkpoint)
    if run.config.exact and record["identity"] != run.identity:
        raise UserError(
            f"--exact: {checkpoint} was computed on {record['identity']}, this is {run.identity}",
            "resume with the same --threads and on the same kind of device",
        )
    if Contents.from_record(record["data"]) != run.contents:
        raise UserError(
            f"{checkpoint} was trained on other data than those of the run in {run.resume_point.source}",
            "give a checkpoint of that run",
        )
    load_tensors(checkpoint, trained)
    run.training.batch_norm.reload()
    scaler = run.processes.accelerator.scaler
    if scaler and record["scaler"]:
        scaler.load_state_dict(record["scaler"])
    return state, record


def _cut_files(folder: Path, source: Path | None, checkpoint: Path | None, metrics_bytes: int) -> None:
    """Restore the metrics and best weights that the run had at the checkpoint."""
    metrics = (source or folder) / METRICS
    history = metrics.read_bytes()[:metrics_bytes] if metrics.exists() else b""
    write_file(folder / METRICS, history)
    best = folder / WEIGHTS["best"]
    if checkpoint and (checkpoint / best.name).exists():
        write_file(best, (checkpoint / best.name).read_bytes())
    else:
        with suppress(FileNotFoundError):
            best.unlink()
