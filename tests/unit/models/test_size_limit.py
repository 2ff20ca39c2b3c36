"""The building of a model stops as soon as it is larger than allowed."""

import time

import pytest
import torch
from helpers.models import build
from torch import nn

from accel_train.models.size_limit import values_at_most


def test_model_of_the_size_allowed_is_built() -> None:
    with values_at_most(6):
        assert isinstance(nn.Linear(2, 2), nn.Linear)
    with pytest.raises(RuntimeError, match="far larger"), values_at_most(5):
        nn.Linear(2, 2)
    assert isinstance(nn.Linear(20, 20), nn.Linear)


@pytest.mark.parametrize(
    ("name", "size"), [("wide_resnet_9994_1000", 8), ("wide_resnet_9994_1", 8), ("cnn", 1000), ("mlp", 1000)]
)
def test_large_model_takes_neither_time_nor_memory(name: str, size: int) -> None:
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="far larger"), values_at_most(100_000):
        build(name, image_size=size)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("name", ["cnn", "wide_resnet_10_1", "resnet18", "googlenet", "squeezenet1_1"])
def test_no_more_values_are_counted_than_a_model_has_but_for_a_replaced_layer(name: str) -> None:
    values = sum(weight.numel() for weight in build(name, channels=3, data_size=32).module.state_dict().values())
    with values_at_most(values + 10_000):
        built = build(name, channels=3, data_size=32)
    assert torch.isfinite(next(built.module.parameters())).all()
