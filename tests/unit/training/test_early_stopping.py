"""Early stopping at a target accuracy, or after epochs without a better one."""

from dataclasses import replace

import pytest
from helpers.run_events import epoch_end

from accel_train.training.early_stopping import EarlyStopping
from accel_train.training.state import TrainingState


def state(epoch: int, accuracy: float, best_epoch: int, ema_accuracy: float | None = None) -> TrainingState:
    last = replace(epoch_end(epoch), val_accuracy=accuracy, ema_val_accuracy=ema_accuracy)
    return TrainingState(epochs=epoch, last=last, best=epoch_end(best_epoch))


@pytest.mark.parametrize(
    ("target", "patience", "now", "reason"),
    [
        (None, None, state(9, 0.5, 1), None),
        (0.8, None, state(3, 0.79, 3), None),
        (0.8, None, state(3, 0.8, 3), "target accuracy 0.8 reached"),
        (0.8, None, state(3, 0.9, 3, ema_accuracy=0.7), None),
        (0.8, None, state(3, 0.7, 3, ema_accuracy=0.9), "target accuracy 0.8 reached"),
        (None, 2, state(4, 0.5, 3), None),
        (None, 2, state(5, 0.5, 3), "no better epoch for 2"),
        (None, 2, state(7, 0.5, 3), "no better epoch for 4"),  # resumed with less patience
        (0.8, 2, state(5, 0.8, 3), "target accuracy 0.8 reached"),
        (0.1, 1, TrainingState(), None),
    ],
)
def test_stops_at_target_or_after_patience(
    target: float | None, patience: int | None, now: TrainingState, reason: str | None
) -> None:
    assert EarlyStopping(target, patience).reason(now) == reason
