"""Options of augmentation are checked, and the level sets those that are not given."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from accel_train.config.augmentation_panel import LEVEL_OPTIONS
from accel_train.config.defaults import DATA_DEFAULTS, Augmentation
from accel_train.config.load import make_config, merged
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.resolve import resolve
from accel_train.errors import UserError


def resolved(kind: str = "folder", **given: Any) -> tuple[ResolvedConfig, dict[str, str]]:
    return resolve(TrainConfig(**given), dict.fromkeys(given, "flag"), kind, 1000, "fp32")


def refused(**given: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, given, {})
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize("kind", DATA_DEFAULTS)
@pytest.mark.parametrize("level", ["none", "light", "standard", "strong"])
def test_level_sets_every_option_with_its_origin(kind: str, level: str) -> None:
    config, origins = resolved(kind, augment=level)
    expected = DATA_DEFAULTS[kind].augmentation(level)
    assert config.augmentation == expected
    used = LEVEL_OPTIONS - (set() if expected.random_crop else {"crop_scale", "crop_ratio"})
    assert {name for name in LEVEL_OPTIONS if getattr(config, name) is not None} == used
    assert {origins[name] for name in used} == {f"--augment {level} for {kind}"}
    assert ResolvedConfig(**config.model_dump()) == config


def test_without_a_level_options_follow_from_the_data() -> None:
    config, origins = resolved("cifar10")
    assert (config.augment, config.augmentation) == ("standard", Augmentation(shift=4, flip=0.5))
    assert (origins["augment"], origins["shift"]) == ("default for cifar10", "--augment standard for cifar10")


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ({"flip": "0.2"}, {"flip": 0.2}),
        ({"shift": "7"}, {"shift": 7}),
        ({"vertical_flip": "1"}, {"vertical_flip": 1.0}),
        ({"rotate": "15"}, {"rotate": 15.0}),
        ({"random_erasing": "0.3"}, {"random_erasing": 0.3}),
        ({"color_jitter": "0.4"}, {"color_jitter": (0.4, 0.4, 0.4, 0.0)}),
        ({"color_jitter": 0.4}, {"color_jitter": (0.4, 0.4, 0.4, 0.0)}),
        ({"color_jitter": ["0.4,0.3,0.2,0.1"]}, {"color_jitter": (0.4, 0.3, 0.2, 0.1)}),
        ({"color_jitter": [0.1, 0.2, 0.3, 0]}, {"color_jitter": (0.1, 0.2, 0.3, 0.0)}),
        ({"rand_augment": "2,9"}, {"rand_augment": (2, 9)}),
        ({"rand_augment": "0"}, {"rand_augment": (0, 0)}),
        ({"trivial_augment": True}, {"trivial_augment": True}),
        ({"crop_scale": "0.5,1"}, {"random_crop": True, "crop_scale": (0.5, 1.0)}),
        ({"crop_ratio": "1,1"}, {"random_crop": True, "crop_ratio": (1.0, 1.0)}),
        ({"random_crop": True}, {"random_crop": True}),
    ],
)
def test_each_option_can_be_given_alone(given: dict[str, Any], change: dict[str, Any]) -> None:
    config, origins = resolved(augment="none", **given)
    assert config.augmentation == replace(Augmentation(), **change)
    assert {origins[name] for name in given} == {"flag"}


def test_options_that_are_given_replace_those_of_the_level() -> None:
    config, origins = resolved(augment="strong", flip=0, random_crop=False, rand_augment="1,5")
    level = DATA_DEFAULTS["folder"].augmentation("strong")
    assert config.augmentation == replace(
        level, flip=0.0, random_crop=False, rand_augment=(1, 5), trivial_augment=False
    )
    assert origins["trivial_augment"] == "because --rand-augment was given"
    config, origins = resolved("digits", augment="strong", trivial_augment=True)
    assert (config.trivial_augment, config.rand_augment) == (True, (0, 0))
    assert origins["rand_augment"] == "because --trivial-augment was given"


@pytest.mark.parametrize("fit", ["pad", "squash"])
def test_whole_pictures_are_not_cropped_at_random(fit: str) -> None:
    config, origins = resolved(fit=fit)
    assert (config.random_crop, config.crop_scale, config.eval_crop) == (False, None, None)
    assert origins["random_crop"] == f"because of --fit {fit}"
    assert config.flip == 0.5


@pytest.mark.parametrize("fit", ["pad", "squash"])
def test_whole_pictures_are_for_evaluation_only_if_a_random_crop_is_asked_for(fit: str) -> None:
    config, _ = resolved(fit=fit, random_crop=True, crop_scale="0.5,1")
    assert (config.random_crop, config.crop_scale, config.fit, config.eval_crop) == (True, (0.5, 1.0), fit, None)


def test_pictures_are_fitted_by_default_and_images_of_one_size_are_not() -> None:
    config, origins = resolved()
    assert (config.fit, config.eval_crop) == ("crop", 0.875)
    assert (origins["fit"], origins["eval_crop"]) == ("default", "default")
    config, _ = resolved("digits")
    assert (config.fit, config.eval_crop) == (None, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"flip": 1.5}, "--flip 1.5: must be at most 1"),
        ({"flip": -0.1}, "--flip -0.1: must be at least 0"),
        ({"rotate": 200}, "--rotate 200: must be at most 180"),
        ({"shift": -1}, "--shift -1: must be at least 0"),
        ({"eval_crop": 0}, "--eval-crop 0: must be greater than 0"),
        ({"fit": "zoom"}, "--fit zoom: must be one of crop, pad, squash"),
        ({"crop_scale": ["1,0.5"]}, "--crop-scale 1,0.5: must be two numbers, the smaller first, such as 0.5,1"),
        ({"crop_scale": "0.5"}, "--crop-scale 0.5: must be two numbers, the smaller first, such as 0.5,1"),
        ({"crop_scale": "0.5,2"}, "--crop-scale 0.5,2: must be at most 1: the whole picture"),
        ({"crop_ratio": "0,2"}, "--crop-ratio 0,2: must be two numbers, the smaller first, such as 0.5,1"),
        (
            {"color_jitter": "0.4,0.4"},
            "--color-jitter 0.4,0.4: must be one number from 0 to 1, or four: brightness, contrast, saturation and hue "
            "(up to 0.5)",
        ),
        (
            {"rand_augment": "2"},
            "--rand-augment 2: must be the number of operations (to 16) and their magnitude (0 to 30), such as 2,9, "
            "or 0",
        ),
        ({"crop_scale": "0.5,1", "random_crop": False}, "--crop-scale has no effect with --no-random-crop"),
        ({"crop_ratio": "1,1", "fit": "pad"}, "--crop-ratio has no effect with --fit pad, which shows whole pictures"),
        ({"eval_crop": 0.9, "fit": "pad"}, "--eval-crop has no effect with --fit pad"),
        (
            {"trivial_augment": True, "rand_augment": "1,1"},
            "--trivial-augment and --rand-augment draw the same operations",
        ),
    ],
)
def test_what_cannot_be_or_has_no_effect_is_refused(given: dict[str, Any], message: str) -> None:
    assert refused(**given)[0] == message


def test_level_given_as_a_flag_replaces_what_a_file_says_of_augmentation() -> None:
    stored = resolved("cifar10", augment="standard")[0].model_dump()
    again = make_config(TrainConfig, merged(stored, {"augment": "none"}) | {"augment": "none"}, {})
    assert resolve(again, {}, "cifar10", 1000, "fp32")[0].augmentation == Augmentation()
    kept = merged(stored, {"flip": 0.1})
    assert (kept["augment"], kept["shift"], "flip" in kept) == ("standard", 4, False)
    assert merged({"lr": 0.1, "fit": "pad"}, {"augment": "none"}) == {"lr": 0.1, "fit": "pad"}


def test_every_change_is_an_option() -> None:
    assert set(asdict(Augmentation())) == LEVEL_OPTIONS <= set(TrainConfig.model_fields)
