"""The state of a run survives JSON, and that of checkpoints written before can be read."""

import json
from dataclasses import replace

from helpers.run_events import epoch_end

from accel_train.system.records import checked
from accel_train.training.state import TrainingState

STORED = """
{
 "update": 30, "epochs": 1, "epoch_sums": [14.25, 97.0, 0.0, 128.0], "skipped": [[10, 20]],
 "best": {
  "epoch": 1, "update": 22, "train_loss": 0.5, "train_accuracy": 0.75, "val_loss": 0.25, "val_accuracy": 0.875,
  "ema_val_loss": null, "ema_val_accuracy": null, "lr": 0.05, "images_per_second": 100.0, "seconds": 2.0, "best": true
 },
 "last": null, "seconds": 3.5
}
"""
"""As version 0.1.0 writes it."""


def test_state_survives_json() -> None:
    best, last = epoch_end(1), replace(epoch_end(2), ema_val_loss=0.3, ema_val_accuracy=0.9, best=False)
    state = TrainingState(50, 2, [1 / 3, 2.0, 0.0, 4.0], [(10, 20), (30, 40)], best, last, 61.7, [0.25, -1 / 3])
    assert checked(json.loads(json.dumps(state.as_record())), TrainingState) == state
    assert checked(TrainingState().as_record(), TrainingState) == TrainingState()


def test_stored_state_is_read_and_written_alike_with_what_is_new() -> None:
    record = json.loads(STORED)
    state = checked(record, TrainingState)
    assert (state.update, state.epochs, state.skipped, state.last, state.seconds) == (30, 1, [(10, 20)], None, 3.5)
    assert state.best is not None
    assert state.best.selection_accuracy == 0.875
    record["best"] |= {"val_balanced_accuracy": None, "ema_val_balanced_accuracy": None}
    record["best"] |= {"noise_scale": None, "noise_scale_low": None, "noise_scale_high": None}
    record["gradient_shares"] = []
    assert json.loads(json.dumps(state.as_record())) == record
