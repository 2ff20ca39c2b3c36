"""When to train no more."""

from dataclasses import dataclass

from accel_train.training.state import Position


@dataclass(frozen=True)
class Stopping:
    """When to stop before the last epoch; all processes find the same, because all know the same accuracy."""

    target_accuracy: float | None
    patience: int | None

    def reason(self, position: Position) -> str | None:
        """Return why to train no more, or None to go on."""
        if position.last is None or position.best is None:
            return None
        if self.target_accuracy is not None and position.last.judged_accuracy >= self.target_accuracy:
            return f"target accuracy {self.target_accuracy:g} reached"
        epochs_without_better = position.last.epoch - position.best.epoch
        if self.patience is not None and epochs_without_better >= self.patience:
            return f"no better epoch for {epochs_without_better}"
        return None
