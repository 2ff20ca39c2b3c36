"""The command that trains has what was given: flags, and the file or recipe."""

from typing import Any

import pytest

from accel_train.cli.train_command import train_command
from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig

GIVEN = {"epochs": 3, "milestones": "1,2", "schedule": "step", "exact": True, "lr": 0.25}


@pytest.mark.parametrize(
    ("origins", "without", "words"),
    [
        ({}, (), []),
        (
            dict.fromkeys(GIVEN, "flag"),
            ("lr",),
            ["--exact", "--epochs", "3", "--schedule", "step", "--milestones", "1,2"],
        ),
        (dict.fromkeys(GIVEN, "my.yaml") | {"lr": "flag"}, (), ["--config", "my.yaml", "--lr", "0.25"]),
        (
            dict.fromkeys(GIVEN, "run/config.yaml") | {"lr": "default for cnn with sgd, in run/config.yaml"},
            (),
            ["--config", "run/config.yaml"],
        ),
        (dict.fromkeys(GIVEN, "recipe digits"), (), ["--recipe", "digits"]),
    ],
)
def test_command_has_what_was_given(origins: dict[str, str], without: tuple[str, ...], words: list[Any]) -> None:
    found = train_command(make_config(TrainConfig, GIVEN, {}), origins, without)
    assert found[:2] == ["accel_train", "train"]
    assert sorted(found[2:]) == sorted(words)


def test_data_that_a_recipe_leaves_to_the_user_are_named() -> None:
    config = make_config(TrainConfig, {"data": "imagenet"}, {})
    recipe = ["--recipe", "imagenet_1hour", "--data", "DIR"]
    assert train_command(config, {"data": "recipe imagenet_1hour"})[2:] == recipe
    assert train_command(config, {"data": "flag"})[2:] == ["--data", "imagenet"]
