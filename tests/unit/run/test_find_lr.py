"""After an LR range test without a suggestion, the options to try follow from how the loss went."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from accel_train.config.options import TrainConfig
from accel_train.config.plan import make_plan
from accel_train.config.resolve import resolve
from accel_train.run.find_lr import remedy
from accel_train.training.lr_range import Tried, suggest

FLAT = [2.3] * 20
RISES_AT_ONCE = [2.3 + 0.1 * update for update in range(20)]
RISES_LATER = [*[2.3 - 0.005 * update for update in range(16)], 2.5, 4.0, 8.0, 16.0]


@pytest.mark.parametrize(
    ("losses", "images", "given", "expected"),
    [
        (FLAT, 64, {}, "try a higher rate: --end-lr 100"),
        (RISES_AT_ONCE, 64, {}, "it rises from the lowest rate on: try a lower one: --start-lr 1e-05"),
        (
            RISES_LATER,
            64,
            {"batch_size": 64},
            "it rises after too few updates: try --epochs 100 --updates 100 or --batch-size 32",
        ),
        (RISES_LATER, 8, {"batch_size": 8}, "it rises after too few updates: try --epochs 100 --updates 100"),
        (RISES_LATER, 640, {"batch_size": 16}, "it rises after too few updates: try --updates 200"),
    ],
)
def test_remedy_depends_on_where_the_loss_rises(
    losses: Sequence[float], images: int, given: dict[str, Any], expected: str
) -> None:
    config = resolve(TrainConfig(data="digits", model="cnn", epochs=20, **given), {}, "digits", images, "fp32")[0]
    tried = [Tried(10 ** (-3 + 3 * update / 19), loss) for update, loss in enumerate(losses)]
    found = suggest(tried)
    assert found.lr is None
    run = make_plan(config, 1, images)
    rising = replace(run.learning_rate, total_updates=min(100, run.total_updates))
    assert remedy(config, replace(run, learning_rate=rising), tried, found) == expected
