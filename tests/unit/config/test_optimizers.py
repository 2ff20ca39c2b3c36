"""Rows of the optimizer table: defaults by model, and keyword arguments."""

import pytest

from accel_train.config.lr_schedule import SCALINGS
from accel_train.config.optimizers import OPTIMIZERS, default_optimizer


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


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("model", ["cnn", "resnet50", "vgg16", "vgg16_bn", "my.nets:vit", "timm:vit_tiny", "swin_t"])
def test_given_weights_are_trained_at_no_higher_rate_than_random_ones_may_take(name: str, model: str) -> None:
    rate = OPTIMIZERS[name].rate(model, from_weights=True)
    assert 0 < rate.lr < 1
    if name == "sgd":
        assert rate.max_lr <= OPTIMIZERS[name].rate(model).max_lr


@pytest.mark.parametrize(("batch", "peak"), [(16, 0.00625), (64, 0.025), (256, 0.1), (512, 0.2), (1024, 0.2)])
def test_rate_for_given_weights_grows_with_the_batch_up_to_its_limit(batch: int, peak: float) -> None:
    sgd = OPTIMIZERS["sgd"]
    assert sgd.usual_peak(sgd.rate("resnet18", from_weights=True), batch) == pytest.approx(peak)


@pytest.mark.parametrize(
    ("model", "of"), [("timm:vit_tiny", "swin_t"), ("timm:vgg16", "alexnet"), ("timm:vgg16_bn", "resnet18")]
)
def test_models_of_timm_have_the_rate_of_their_family(model: str, of: str) -> None:
    for from_weights in (False, True):
        rates = [OPTIMIZERS["sgd"].rate(each, from_weights=from_weights) for each in (model, of)]
        assert rates[0] == rates[1]


def test_default_optimizer_is_adamw_for_given_weights_of_transformers_only() -> None:
    found = {model: default_optimizer(model, from_weights=True) for model in ("vit_b_16", "timm:beit_base", "resnet18")}
    assert found == {"vit_b_16": "adamw", "timm:beit_base": "adamw", "resnet18": "sgd"}
    assert default_optimizer("vit_b_16", from_weights=False) == "sgd"
