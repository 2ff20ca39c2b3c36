"""A plan is refused before the images are counted if it would be refused for any number of them."""

from typing import Any

import pytest

from accel_train.config.early_check import check_plan
from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.errors import UserError


def check(processes: int, **given: Any) -> None:
    origins = dict.fromkeys(given, "flag")
    check_plan(make_config(TrainConfig, given, origins), origins, processes, given.get("pipeline_stages", 1))


@pytest.mark.parametrize(
    ("processes", "given", "error"),
    [
        (8, {"data": "a", "global_batch_size": 100}, "8 processes cannot share 2 micro-batches of 50"),
        (1, {"data": "a", "global_batch_size": 100, "batch_size": 32}, "is not a multiple of --batch-size 32"),
        (1, {"data": "a", "batch_size": 8, "epochs": 5, "warmup_epochs": 7}, "--warmup-epochs 7 must be less than"),
        (1, {"limit": 50, "batch_size": 64}, "the global batch of 64 images is larger than the 50 training images"),
        (4, {"batch_size": 512}, "the global batch of 2,048 images is larger than the 1,438 training images"),
    ],
)
def test_plan_that_no_number_of_images_allows_is_refused(processes: int, given: dict[str, Any], error: str) -> None:
    with pytest.raises(UserError) as refused:
        check(processes, **given)
    assert error in refused.value.message


@pytest.mark.parametrize(
    ("processes", "given"),
    [
        (64, {"data": "a", "optimizer": "adamw", "lr": 0.1, "lr_scaling": "sqrt"}),  # few images: small batches
        (1, {"data": "a", "batch_size": 8, "weights": "DEFAULT", "model": "resnet18", "warmup_epochs": 7}),
        (8, {"data": "a", "global_batch_size": 100, "auto_micro_batch": True}),
        (4, {"data": "a", "global_batch_size": 64, "batch_size": 32, "strategy": "pipeline", "pipeline_stages": 2}),
    ],
)
def test_plan_that_some_number_of_images_allows_is_accepted(processes: int, given: dict[str, Any]) -> None:
    check(processes, **given)
