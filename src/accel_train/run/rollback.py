"""Goes back to the last valid checkpoint after a loss or weight was not finite."""

from pathlib import Path

from accel_train.checkpoints.checkpointer import TrainedTensors
from accel_train.events import Notice
from accel_train.run.build import Run
from accel_train.run.restore import newest_checkpoint, restore
from accel_train.training.nonfinite import Diverged
from accel_train.training.state import TrainingState

_MAX_ROLLBACKS = 3
"""Maximum rollbacks to the same checkpoint: if nothing could be saved in between, skipping data does not help."""


class Rollback:
    """Rolls a run back, and counts how often."""

    def __init__(self, run: Run, trained: TrainedTensors) -> None:
        self._run = run
        self._trained = trained
        self._done: list[Path] = []

    def __call__(self, state: TrainingState, diverged: Diverged) -> Notice:
        """Collective: load the last checkpoint, and mark the updates since as skipped in the state.

        Raises:
            Diverged: nothing was saved yet, or rolling back has not helped.
        """
        checkpoint, _ = newest_checkpoint(self._run, self._run.resume_point.folder)
        if checkpoint is None or self._done.count(checkpoint) == _MAX_ROLLBACKS:
            why = (
                "nothing has been saved yet" if checkpoint is None else f"{_MAX_ROLLBACKS} rollbacks to it did not help"
            )
            raise Diverged(f"{diverged.message}; {why}", diverged.hint)
        self._done.append(checkpoint)
        restored = restore(self._run, self._trained, checkpoint).position
        same_epoch = restored.epochs == state.epochs and self._run.processes.is_main
        sums = restored.epoch_sums if same_epoch else [0.0] * len(restored.epoch_sums)
        self._run.training.updater.epoch_sums.load(sums)
        state.skipped.append((restored.update, state.update))
        return Notice(
            f"{diverged.message}: rolled back to {checkpoint.name}, "
            f"skipping the updates {restored.update + 1} to {state.update}"
        )
