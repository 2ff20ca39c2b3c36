"""What the stores of services tell of the values that they hold."""

from pathlib import Path

from accel_train.trackers.base import KEYS, TrackedRun
from accel_train.trackers.trackio import last_updates
from accel_train.trackers.wandb import held_in


def test_summary_of_wandb_tells_the_last_update_of_each_record() -> None:
    summary = {"progress/lr": 0.1, "progress/update": 40, "epoch/val_loss": 1.0, "epoch/update": 22, "_step": 7}
    assert held_in(summary) == {"progress/lr": 40, "progress/update": 40, "epoch/val_loss": 22, "epoch/update": 22}
    assert held_in({}) == {}


def test_rows_of_trackio_tell_the_last_update_of_each_value() -> None:
    logs = [{"step": 20, "a": 1, "b": 2}, {"step": 60, "b": 2}, {"step": 40, "a": 1}]
    held = last_updates(logs)
    assert (held["a"], held["b"]) == (40, 60)


def test_keys_are_those_of_all_records() -> None:
    assert {"progress/lr", "epoch/val_accuracy", "end/best_epoch"} <= set(KEYS)


def test_parameters_are_scalars() -> None:
    config = {"lr": 0.1, "epochs": 2, "exact": False, "milestones": [1, 2], "ema": None, "model": "cnn"}
    run = TrackedRun(Path("/runs/digits_1"), "abc", None, config)
    assert run.parameters == {"lr": 0.1, "epochs": 2, "exact": False, "milestones": "[1, 2]", "model": "cnn"}
    assert run.name == "digits_1"
