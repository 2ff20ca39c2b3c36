"""Finds out what a run would do with its folder and resume from, and writes nothing."""

from accel_train.checkpoints import run_folder
from accel_train.run.build import Run
from accel_train.run.restore import FoundState, find_state
from accel_train.system.folder_lock import FolderLock


def dry_run(run: Run) -> tuple[str, list[str]]:
    """Collective: return where the run would start, and its notices.

    Raises:
        UserError: the checkpoint to resume from cannot be used, or another run holds the folder.
    """
    run.processes.on_main(FolderLock(run.resume_point.folder).check)
    found = find_state(run)
    return _start(run, found), [*run.notices, *found.notices]


def _start(run: Run, found: FoundState) -> str:
    folder, epochs = run.resume_point.folder, run.plan.epochs
    if found.state:
        position = found.state.position
        epoch = min(position.epochs + 1, epochs)
        return f"would resume at epoch {epoch:,} of {epochs:,}, update {position.update:,}, from {found.checkpoint}"
    if run_folder.contains_run(folder):
        return f"would start again: the run in {folder} has no checkpoint"
    return f"would start a new run in {'the empty' if folder.exists() else 'the new'} folder {folder}"
