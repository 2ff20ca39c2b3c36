"""Rows of the optimizer table: defaults by model, and keyword arguments."""

import pytest

from accel_train.config.lr_schedule import SCALINGS
from accel_train.config.optimizers import OPTIMIZERS


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("model", ["cnn", "resnet18", "vgg16", "vgg16_bn", "my.nets:cnn", "wide_resnet_10_1"])
def test_every_model_has_a_default_learning_rate(name: str, model: str) -> None:
    rate = OPTIMIZERS[name].rate(model)
    assert 0 < rate.lr < 1
    assert 0 < rate.max_lr < 10


@pytest.mark.parametrize(
    ("model", "of"),
    [
        ("wide_resnet", "wide_resnet_28_10"),
        ("squeezenet1_0", "alexnet"),
        ("vgg16", "alexnet"),
        ("vgg16_bn", "resnet18"),
    ],
)
def test_models_of_a_family_have_the_same_rate(model: str, of: str) -> None:
    assert OPTIMIZERS["sgd"].rate(model) == OPTIMIZERS["sgd"].rate(of)


def test_users_model_is_of_no_family_although_its_name_starts_like_one() -> None:
    assert OPTIMIZERS["sgd"].rate("my.nets:cnn") == OPTIMIZERS["sgd"].rate("resnet18")


def test_only_optimizers_that_scale_betas_take_them() -> None:
    assert OPTIMIZERS["sgd"].settings((0.8, 0.9), 1e-3) == {"momentum": 0.9, "nesterov": True}
    assert OPTIMIZERS["adamw"].settings((0.8, 0.9), 1e-3) == {"betas": (0.8, 0.9), "eps": 1e-3}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_default_scaling_is_a_rule(name: str) -> None:
    assert OPTIMIZERS[name].scaling in SCALINGS
