"""What nobody chose is chosen by data set, model and optimizer, and says so; never by the number of processes."""

import inspect
from typing import Any

import pytest

from accel_train.config.defaults import DATA_DEFAULTS, Augmentation, with_defaults
from accel_train.config.options import TrainConfig
from accel_train.config.plan import make_plan
from accel_train.data.sources.builtin import PUBLISHED


def filled(kind: str = "fashion-mnist", images: int = 60_000, **given: Any) -> TrainConfig:
    return with_defaults(TrainConfig(**given), {}, kind, images)[0]


def test_every_kind_of_data_has_its_row() -> None:
    assert set(DATA_DEFAULTS) == {*PUBLISHED, "synthetic", "module", "folder"}


def test_fashion_mnist_defaults() -> None:
    config = filled()
    assert (config.model, config.epochs, config.augment, config.batch_size) == ("cnn", 10, "light", 64)
    assert (config.lr, config.lr_scaling, config.lr_base_batch) == (0.2, "linear", 256)
    assert (config.warmup_epochs, config.weight_decay, config.gamma) == (1.0, 5e-4, None)
    assert config.global_batch_size is config.accumulate is config.warmup_from is None


@pytest.mark.parametrize("kind", DATA_DEFAULTS)
def test_the_defaults_leave_nothing_open_that_a_plan_needs(kind: str) -> None:
    assert make_plan(filled(kind, 1000), 1, 1000).updates_per_epoch >= 8


def test_defaults_know_no_process_count_even_if_one_is_asked_for() -> None:
    assert "processes" not in inspect.signature(with_defaults).parameters
    open_choices = [name for name, field in TrainConfig.model_fields.items() if field.default is None]
    placed = filled(processes=8, device="cpu", workers=3)
    assert {n: getattr(placed, n) for n in open_choices if n not in ("processes", "workers")} == {
        n: getattr(filled(), n) for n in open_choices if n not in ("processes", "workers")
    }


@pytest.mark.parametrize(
    ("images", "batch_size"),
    [(60_000, 64), (512, 64), (511, 32), (256, 32), (255, 16), (64, 8), (20, 2), (16, 2), (5, 2)],
)
def test_small_data_sets_get_batches_of_which_eight_fill_an_epoch(images: int, batch_size: int) -> None:
    assert filled(images=images).batch_size == batch_size


@pytest.mark.parametrize(("global_batch", "batch_size"), [(256, 64), (96, 48), (100, 50), (61, 61), (67, 1), (32, 32)])
def test_a_given_global_batch_gets_the_largest_batch_that_divides_it(global_batch: int, batch_size: int) -> None:
    assert filled(global_batch_size=global_batch).batch_size == batch_size


@pytest.mark.parametrize(
    ("given", "lr", "scaling", "base", "decay"),
    [
        ({}, 0.2, "linear", 256, 5e-4),
        ({"optimizer": "adamw"}, 1e-3, "sqrt", 256, 0.05),
        ({"lr": 0.3}, 0.3, "none", None, 5e-4),
        ({"lr": 0.3, "lr_scaling": "linear"}, 0.3, "linear", 256, 5e-4),
        ({"lr_scaling": "none"}, 0.2, "none", None, 5e-4),
        ({"lr_base_batch": 128, "weight_decay": 0.0}, 0.2, "linear", 128, 0.0),
    ],
)
def test_rate_scaling_and_decay(given: dict[str, Any], lr: float, scaling: str, base: int | None, decay: float) -> None:
    config = filled(**given)
    assert (config.lr, config.lr_scaling, config.lr_base_batch, config.weight_decay) == (lr, scaling, base, decay)


@pytest.mark.parametrize(
    ("model", "lr"),
    [("cnn", 0.2), ("mlp", 0.2), ("resnet18", 0.1), ("vgg16", 0.01), ("vgg16_bn", 0.1), ("my.nets:cnn", 0.1)],
)
def test_the_base_rate_follows_the_model(model: str, lr: float) -> None:
    assert filled(model=model).lr == lr


@pytest.mark.parametrize(("epochs", "warmup"), [(10, 1.0), (5, 1.0), (4, 0.8), (1, 0.2)])
def test_a_short_run_warms_up_for_a_fifth_of_it(epochs: int, warmup: float) -> None:
    assert filled(epochs=epochs).warmup_epochs == pytest.approx(warmup)


def test_gamma_is_chosen_for_steps_alone() -> None:
    assert filled(schedule="step", milestones=[5]).gamma == 0.1
    assert filled(schedule="step", milestones=[5], gamma=0.5).gamma == 0.5


def test_given_values_keep_their_origin_and_choices_get_one() -> None:
    given = {"lr": 0.3, "epochs": 2}
    config, origins = with_defaults(TrainConfig(**given), {"lr": "flag", "epochs": "my.yaml"}, "digits", 1437)
    assert (config.lr, config.epochs) == (0.3, 2)
    assert origins == {
        "lr": "flag",
        "epochs": "my.yaml",
        "model": "default for digits",
        "augment": "default for digits",
        "batch_size": "default for digits of 1,437 images",
        "warmup_epochs": "default for digits",
        "lr_scaling": "because --lr was given",
        "weight_decay": "default for sgd",
    }


def test_characters_are_never_mirrored_and_things_are() -> None:
    flipped = {kind: row.standard.flip for kind, row in DATA_DEFAULTS.items()}
    assert {kind for kind, flip in flipped.items() if not flip} == {"digits", "mnist", "kmnist", "svhn"}


@pytest.mark.parametrize("kind", DATA_DEFAULTS)
def test_no_augmentation_does_nothing(kind: str) -> None:
    assert DATA_DEFAULTS[kind].augmentation("none") == Augmentation(pad=0, flip=False, random_crop=False)


@pytest.mark.parametrize(
    ("augmentation", "words"),
    [
        (Augmentation(), "nothing"),
        (Augmentation(pad=1), "shift by up to 1 pixel"),
        (Augmentation(pad=4, flip=True), "shift by up to 4 pixels, flip"),
        (Augmentation(flip=True, random_crop=True), "random resized crop, flip"),
    ],
)
def test_an_augmentation_in_words(augmentation: Augmentation, words: str) -> None:
    assert str(augmentation) == words
