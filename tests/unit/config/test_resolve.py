"""Defaults follow from data set, model and optimizer, with their origin; never from the number of processes."""

import inspect
from typing import Any

import pytest

from accel_train.config.augmentation_panel import LEVEL_OPTIONS
from accel_train.config.defaults import DATA_DEFAULTS
from accel_train.config.fields import Fit
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import make_plan
from accel_train.config.resolve import resolve


def resolved(kind: str = "fashion-mnist", images: int = 60_000, **given: Any) -> ResolvedConfig:
    return resolve(TrainConfig(**given), {}, kind, images, "fp32")[0]


def test_defaults_of_fashion_mnist() -> None:
    config = resolved()
    assert (config.model, config.epochs, config.augment, config.batch_size) == ("cnn", 10, "light", 64)
    assert (config.lr, config.lr_scaling, config.lr_base_batch) == (0.1, "linear", 256)
    assert (config.warmup_epochs, config.weight_decay, config.gamma) == (1.0, 5e-4, None)
    assert config.global_batch_size is config.accumulate is config.warmup_from is None


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", DATA_DEFAULTS)
def test_resolved_config_is_valid_and_can_be_planned(kind: str, optimizer: str) -> None:
    config = resolved(kind, 1000, optimizer=optimizer)
    assert ResolvedConfig(**config.model_dump()) == config
    assert make_plan(config, 1, 1000).updates_per_epoch >= 13


def test_defaults_do_not_depend_on_processes() -> None:
    assert "processes" not in inspect.signature(resolve).parameters
    optional = [name for name, field in TrainConfig.model_fields.items() if field.default is None]
    placed = resolved(processes=8, device="cpu", workers=3)
    assert {n: getattr(placed, n) for n in optional if n not in ("processes", "workers")} == {
        n: getattr(resolved(), n) for n in optional if n not in ("processes", "workers")
    }


@pytest.mark.parametrize(
    ("images", "batch_size"),
    [(60_000, 64), (832, 64), (831, 32), (416, 32), (415, 16), (207, 8), (20, 8), (5, 5), (1, 1)],
)
def test_small_data_set_gets_a_batch_size_with_13_updates_per_epoch_or_of_eight_images(
    images: int, batch_size: int
) -> None:
    assert resolved(images=images).batch_size == batch_size


@pytest.mark.parametrize(("global_batch", "batch_size"), [(256, 64), (96, 48), (100, 50), (61, 61), (32, 32), (5, 5)])
def test_batch_size_is_the_largest_that_divides_a_given_global_batch(global_batch: int, batch_size: int) -> None:
    assert resolved(global_batch_size=global_batch).batch_size == batch_size


@pytest.mark.parametrize(("global_batch", "batch_size"), [(67, 67), (1009, 1009), (134, 67), (67 * 71, 67)])
def test_batch_size_is_never_too_small_for_batch_norm(global_batch: int, batch_size: int) -> None:
    assert resolved(global_batch_size=global_batch).batch_size == batch_size


def test_global_batch_larger_than_the_data_gets_a_batch_size_at_once() -> None:
    """A prime of 16 digits: its divisors are not searched for."""
    assert resolved(global_batch_size=2**53 - 111).batch_size == 1


@pytest.mark.parametrize(
    ("given", "limited"),
    [
        ({}, True),
        ({"lr_base_batch": 128}, True),
        ({"lr": 0.2}, False),
        ({"lr_scaling": "linear"}, False),
        ({"lr_scaling": "none"}, False),
    ],
)
def test_max_lr_has_a_default_unless_rate_or_rule_is_given(given: dict[str, Any], limited: bool) -> None:
    assert resolved(**given).max_lr == (OPTIMIZERS["sgd"].rate("cnn").max_lr if limited else None)


@pytest.mark.parametrize(
    ("given", "lr", "scaling", "base", "decay"),
    [
        ({}, 0.1, "linear", 256, 5e-4),
        ({"optimizer": "adamw"}, 4e-3, "sqrt", 256, 0.05),
        ({"optimizer": "adamw", "model": "vit_b_16"}, 1e-3, "sqrt", 256, 0.05),
        ({"lr": 0.3}, 0.3, "none", None, 5e-4),
        ({"lr": 0.3, "lr_scaling": "linear"}, 0.3, "linear", 256, 5e-4),
        ({"lr_scaling": "none"}, 0.1, "none", None, 5e-4),
        ({"lr_base_batch": 128, "weight_decay": 0.0}, 0.1, "linear", 128, 0.0),
    ],
)
def test_defaults_of_learning_rate_and_weight_decay(
    given: dict[str, Any], lr: float, scaling: str, base: int | None, decay: float
) -> None:
    config = resolved(**given)
    assert (config.lr, config.lr_scaling, config.lr_base_batch, config.weight_decay) == (lr, scaling, base, decay)


@pytest.mark.parametrize(
    ("model", "lr"),
    [("cnn", 0.1), ("mlp", 0.2), ("resnet18", 0.1), ("vgg16", 0.01), ("vgg16_bn", 0.1), ("my.nets:cnn", 0.1)],
)
def test_default_lr_depends_on_the_model(model: str, lr: float) -> None:
    assert resolved(model=model).lr == lr


@pytest.mark.parametrize(("epochs", "warmup"), [(10, 1.0), (5, 1.0), (4, 0.8), (3, 3 / 5), (1, 0.2)])
def test_warmup_is_at_most_a_fifth_of_the_run(epochs: int, warmup: float) -> None:
    assert resolved(epochs=epochs).warmup_epochs == warmup


def test_gamma_has_a_default_for_the_step_schedule_only() -> None:
    assert resolved(schedule="step", milestones=[5]).gamma == 0.1
    assert resolved(schedule="step", milestones=[5], gamma=0.5).gamma == 0.5


def test_precision_is_the_one_that_runs() -> None:
    config, origins = resolve(TrainConfig(), {}, "digits", 1437, "bf16")
    assert config.precision == "bf16"
    assert "precision" not in origins


def test_given_values_keep_their_origin_and_defaults_get_one() -> None:
    given = {"lr": 0.3, "epochs": 2}
    config, origins = resolve(TrainConfig(**given), {"lr": "flag", "epochs": "my.yaml"}, "digits", 1437, "fp32")
    assert (config.lr, config.epochs) == (0.3, 2)
    assert {name: origin for name, origin in origins.items() if name not in LEVEL_OPTIONS} == {
        "lr": "flag",
        "epochs": "my.yaml",
        "model": "default for digits",
        "optimizer": "default",
        "augment": "default for digits",
        "batch_size": "default for digits of 1,437 images",
        "warmup_epochs": "default for digits",
        "lr_scaling": "because --lr was given",
        "weight_decay": "default for sgd",
    }


def test_config_with_values_of_another_run_is_resolved_although_it_is_invalid() -> None:
    """A stored run without warmup is compared with a config that has `warmup_from`."""
    compared = TrainConfig(warmup_from=0.1).model_copy(update={"warmup_epochs": 0})
    assert resolve(compared, {}, "digits", 1437, "fp32")[0].warmup_epochs == 0


@pytest.mark.parametrize(
    ("images", "given", "epochs", "batch_size"),
    [
        (300, {}, 20, 16),
        (3_000, {}, 20, 64),
        (3_000, {"batch_size": 512}, 20, 512),
        (6_000, {}, 10, 64),
        (6_000, {"global_batch_size": 256}, 10, 64),
        (50_000, {}, 5, 64),
    ],
)
def test_given_weights_are_trained_for_fewer_epochs_the_more_images_there_are(
    images: int, given: dict[str, Any], epochs: int, batch_size: int
) -> None:
    config, origins = resolve(TrainConfig(weights="DEFAULT", **given), {}, "folder", images, "fp32")
    assert (config.epochs, config.batch_size) == (epochs, batch_size)
    assert origins["epochs"] == f"default for folder of {images:,} images with --weights"
    assert resolved("folder", images, **given).epochs == 20


@pytest.mark.parametrize(
    ("images", "given", "epochs"),
    [
        (300, {"batch_size": 30}, 20),
        (300, {"batch_size": 64}, 40),
        (300, {"batch_size": 128}, 60),
        (800, {"batch_size": 128}, 22),
        (1_000, {"batch_size": 256}, 20),
        (300, {"batch_size": 32, "accumulate": 8}, 60),
        (300, {"global_batch_size": 256}, 60),
        (300, {"global_batch_size": 256, "epochs": 3}, 3),
        (200, {"batch_size": 256}, 90),  # is refused later
        (50_000, {"global_batch_size": 8192}, 10),
    ],
)
def test_given_weights_get_enough_updates_although_the_batch_is_large(
    images: int, given: dict[str, Any], epochs: int
) -> None:
    config, origins = resolve(TrainConfig(weights="DEFAULT", **given), {}, "folder", images, "fp32")
    assert config.epochs == epochs
    assert config.warmup_epochs == min(1.0, epochs / 5)
    if "epochs" not in given and epochs != 20:
        per_update = config.global_batch_size or config.batch_size * (config.accumulate or 1)
        assert origins["epochs"].endswith(f" images with --weights, {per_update:,} in an update")
    assert resolved("folder", images, **given).epochs == given.get("epochs", 20)


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        *(("resnet18", "sgd"), ("timm:resnet18", "sgd"), ("timm:efficientnet_b0", "sgd")),
        *(("vit_b_16", "adamw"), ("timm:deit_tiny_patch16_224", "adamw"), ("timm:naflexvit_base_patch16_gap", "adamw")),
    ],
)
def test_given_weights_get_an_optimizer_and_rate_of_their_own(model: str, optimizer: str) -> None:
    config, origins = resolve(TrainConfig(weights="DEFAULT", model=model), {}, "folder", 3000, "fp32")
    rate = OPTIMIZERS[optimizer].rate(model, from_weights=True)
    assert (config.optimizer, config.lr, config.max_lr) == (optimizer, rate.lr, rate.max_lr)
    assert config.usual_rate == rate
    assert origins["optimizer"] == f"default for fine-tuning {model}"
    assert origins["lr"] == origins["max_lr"] == f"default for fine-tuning {model} with {optimizer}"
    assert (resolved(model=model).optimizer, resolve(TrainConfig(), {}, "folder", 9, "fp32")[1]["optimizer"]) == (
        "sgd",
        "default",
    )


@pytest.mark.parametrize("name", ["timm:hf-hub:timm/vit_base_patch16_224.augreg_in21k", "timm:hf-hub:me/birds@v2"])
def test_transformer_of_the_hub_gets_the_optimizer_of_transformers(name: str) -> None:
    architecture = None if "vit" in name else "timm:vit_base_patch16_224"
    given: Any = {"weights": "DEFAULT", "model": name}
    config, _ = resolve(TrainConfig(**given), {}, "folder", 3000, "fp32", architecture=architecture)
    assert (config.optimizer, config.lr, config.max_lr) == ("adamw", 6e-5, 1e-4)


def test_given_weights_are_trained_on_larger_crops() -> None:
    config, origins = resolve(TrainConfig(weights="DEFAULT"), {}, "folder", 3000, "fp32")
    assert (config.crop_scale, origins["crop_scale"]) == ((0.35, 1.0), "default with --weights")
    assert resolved("folder").crop_scale == (0.08, 1.0)
    assert resolved("folder", weights="DEFAULT", crop_scale="0.2,1").crop_scale == (0.2, 1.0)
    for given in ({"augment": "light"}, {"fit": "pad"}, {"random_crop": False}):
        assert resolved("folder", weights="DEFAULT", **given).crop_scale is None


def test_frozen_layers_are_the_backbone_if_only_the_epoch_is_given() -> None:
    config, origins = resolve(TrainConfig(unfreeze_at=2), {}, "folder", 3000, "fp32")
    assert (config.freeze, origins["freeze"]) == ("backbone", "because --unfreeze-at was given")
    assert resolved(unfreeze_at=2, freeze="3").freeze == "3"
    assert resolved().freeze is None


@pytest.mark.parametrize(
    ("asked", "fit", "crop"),
    [
        ({}, ("squash", "as for --weights DEFAULT"), (None, "")),
        ({"fit": "pad"}, ("pad", "flag"), (None, "")),
        ({"fit": "crop"}, ("crop", "flag"), (0.95, "as for --weights DEFAULT")),
        ({"eval_crop": 0.5}, ("crop", "because --eval-crop was given"), (0.5, "flag")),
    ],
)
def test_pictures_become_square_as_for_the_weights_unless_asked_otherwise(
    asked: dict[str, Any], fit: tuple[str, str], crop: tuple[float | None, str]
) -> None:
    config, found = of_weights("folder", "squash", asked)
    assert ((config.fit, found["fit"]), (config.eval_crop, found.get("eval_crop", ""))) == (fit, crop)
    assert config.random_crop is ("fit" not in asked or asked["fit"] == "crop")  # training crops as timm does
    assert ResolvedConfig(**config.model_dump() | {"global_batch_size": 64}) != config  # what is stored can be read


def test_central_crop_of_given_weights_is_used() -> None:
    config, found = of_weights("folder", "crop", {})
    assert (config.eval_crop, found["eval_crop"]) == (0.95, "as for --weights DEFAULT")
    config, _ = of_weights("digits", "squash", {})
    assert (config.fit, config.eval_crop) == (None, None)


def of_weights(kind: str, fit: Fit, asked: dict[str, Any]) -> tuple[ResolvedConfig, dict[str, str]]:
    config, origins = TrainConfig(weights="DEFAULT", **asked), dict.fromkeys(asked, "flag")
    return resolve(config, origins, kind, 3000, "fp32", fit_of_weights=(fit, 0.95))
