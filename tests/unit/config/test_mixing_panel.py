"""Options of mixed images and balanced classes: their bounds and defaults."""

from typing import Any

import pytest

from accel_train.config.load import make_config
from accel_train.config.options import FREE_ON_RESUME, TrainConfig
from accel_train.errors import UserError

NAMES = ("mixup", "cutmix", "repeated_augmentation", "balance")


def test_nothing_is_mixed_by_default() -> None:
    assert [getattr(TrainConfig(), name) for name in NAMES] == [0.0, 0.0, 1, "none"]


def test_resumed_run_keeps_them() -> None:
    assert not FREE_ON_RESUME & set(NAMES)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("mixup", -0.1, "must be at least 0"),
        ("mixup", 101, "must be at most 100"),
        ("cutmix", "nan", "must be"),
        ("cutmix", "some", "must be a number"),
        ("repeated_augmentation", 0, "must be greater than 0"),
        ("repeated_augmentation", 101, "must be at most 100"),
        ("repeated_augmentation", 1.5, "must be a whole number"),
        ("balance", "focal", "must be one of none, weights, sampling"),
    ],
)
def test_value_out_of_bounds_is_refused(name: str, value: Any, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, {name: value}, {name: "flag"})
    assert f"--{name.replace('_', '-')} {value}: {problem}" in caught.value.message
