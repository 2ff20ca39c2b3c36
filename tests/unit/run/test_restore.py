"""A run that gets more epochs says what becomes of its learning rate."""

from dataclasses import replace
from typing import Any

import pytest
from helpers.plans import small_plan

from accel_train.config.lr_schedule import Schedule
from accel_train.config.plan import Plan
from accel_train.run.restore import extension


def plan(epochs: int, **schedule: Any) -> Plan:
    """Return a plan of ten updates an epoch, whose learning rate falls from 1."""
    rule = Schedule(**{"rule": "cosine", "peak": 1.0, "total_updates": 10 * epochs, **schedule})
    return replace(small_plan(), epochs=epochs, updates_per_epoch=10, learning_rate=rule)


@pytest.mark.parametrize(
    ("extended", "update", "sentence"),
    [
        (
            plan(4),
            20,
            "epochs 2 → 4: the cosine schedule is recomputed over 4 epochs: "
            "the learning rate of update 21 is 0.5 (it was 0.006156 at the end of the finished run)",
        ),
        (
            plan(4, rule="linear"),
            10,
            "epochs 2 → 4: the linear schedule is recomputed over 4 epochs: "
            "the learning rate of update 11 is 0.75 (without more epochs 0.5)",
        ),
        (
            plan(3, rule="constant"),
            20,
            "epochs 2 → 3: the constant schedule stays as it was: "
            "the learning rate of update 21 is 1 (it was 1 at the end of the finished run)",
        ),
        (
            plan(3, rule="step", milestones=(15, 20), gamma=0.1),
            20,
            "epochs 2 → 3: the step schedule stays as it was: "
            "the learning rate of update 21 is 0.01 (it was 0.1 at the end of the finished run)",
        ),
        (
            plan(2000, warmup_updates=10),
            0,
            "epochs 2 → 2000: the cosine schedule is recomputed over 2,000 epochs: "
            "the learning rate of update 1 is 0 (without more epochs 0)",
        ),
    ],
)
def test_more_epochs_tell_the_learning_rate(extended: Plan, update: int, sentence: str) -> None:
    assert extension(extended, 2, update) == [sentence]


def test_finished_run_says_that_nothing_is_left() -> None:
    assert extension(plan(3), 3, 30) == ["the run is finished: 3 epochs; --epochs 4 or more continues it"]
    assert extension(plan(1), 1, 10) == ["the run is finished: 1 epoch; --epochs 2 or more continues it"]


@pytest.mark.parametrize("update", [0, 7, 29])
def test_unfinished_run_says_nothing(update: int) -> None:
    assert extension(plan(3), 3, update) == []
