"""Rows of the optimizer table: defaults by model, and keyword arguments."""

import pytest

from accel_train.config.lr_schedule import SCALINGS
from accel_train.config.optimizers import OPTIMIZERS


@pytest.mark.parametrize(
    ("model", "lr"),
    [
        ("cnn", 0.2),
        ("mlp", 0.2),
        ("resnet18", 0.1),
        ("alexnet", 0.01),
        ("squeezenet1_0", 0.01),
        ("vgg16", 0.01),
        ("vgg16_bn", 0.1),
        ("my.nets:cnn", 0.1),
    ],
)
def test_default_lr_of_sgd_depends_on_the_model(model: str, lr: float) -> None:
    assert OPTIMIZERS["sgd"].default_lr(model) == lr


@pytest.mark.parametrize("model", ["cnn", "vgg16", "resnet18"])
def test_default_lr_of_adamw_does_not_depend_on_the_model(model: str) -> None:
    assert OPTIMIZERS["adamw"].default_lr(model) == 1e-3


def test_only_optimizers_that_scale_betas_take_them() -> None:
    assert OPTIMIZERS["sgd"].settings((0.8, 0.9), 1e-3) == {"momentum": 0.9, "nesterov": True}
    assert OPTIMIZERS["adamw"].settings((0.8, 0.9), 1e-3) == {"betas": (0.8, 0.9), "eps": 1e-3}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_default_scaling_is_a_rule(name: str) -> None:
    assert OPTIMIZERS[name].scaling in SCALINGS
