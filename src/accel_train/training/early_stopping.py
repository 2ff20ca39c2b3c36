"""Early stopping."""

from dataclasses import dataclass

from accel_train.training.state import TrainingState


@dataclass(frozen=True)
class EarlyStopping:
    """Whether to stop before the last epoch; all ranks have the same accuracies, so all decide the same."""

    target_accuracy: float | None
    patience: int | None
    """Epochs without a better one."""

    def reason(self, state: TrainingState) -> str | None:
        """Return why to stop, or None to continue."""
        if state.last is None or state.best is None:
            return None
        if self.target_accuracy is not None and state.last.selection_accuracy >= self.target_accuracy:
            return f"target accuracy {self.target_accuracy:g} reached"
        epochs_without_better = state.last.epoch - state.best.epoch
        if self.patience is not None and epochs_without_better >= self.patience:
            return f"no better epoch for {epochs_without_better}"
        return None
