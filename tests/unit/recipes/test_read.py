"""Recipes are complete: each has a head that tells what it reaches, and options that a run takes."""

import re

import pytest

from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.errors import UserError
from accel_train.recipes.read import HEAD, find, lacks_data, names

FIELDS = set(TrainConfig.model_fields)
PLACED = {"processes", "device", "workers", "output", "resume", "strategy", "accumulate"}


def test_recipes_are_listed_by_name() -> None:
    expected = [
        "cifar10_94",
        "digits",
        "fashion_mnist_fast",
        "fashion_mnist_lab",
        "finetune_resnet50",
        "imagenet_1hour",
    ]
    assert names() == expected


@pytest.mark.parametrize("name", names())
def test_head_tells_command_hardware_time_accuracy_and_date(name: str) -> None:
    recipe = find(name)
    assert tuple(recipe.head) == HEAD
    assert all(recipe.head.values())
    assert f"accel_train train --recipe {name}" in recipe.head["command"]
    measured = recipe.head["measured"]
    assert re.match(r"\d{4}-\d\d-\d\d, torch \d", measured) or measured.startswith("not measured here")
    assert recipe.about.endswith(".")


@pytest.mark.parametrize("name", names())
def test_options_are_those_of_a_run_on_any_hardware(name: str) -> None:
    recipe = find(name)
    values = recipe.values(FIELDS)
    config = make_config(TrainConfig, values, dict.fromkeys(values, recipe.origin))
    assert config.data == values["data"]
    assert not values.keys() & PLACED
    assert {"global_batch_size", "batch_size"} <= values.keys()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("imagenet-1hour", "did you mean imagenet_1hour?"),
        ("fashion", "did you mean fashion_mnist_lab or fashion_mnist_fast?"),
        ("mine.yaml", "a file is given by --config mine.yaml"),
        ("xyz", f"the recipes are {', '.join(names())}"),
        ("../read", f"the recipes are {', '.join(names())}"),
    ],
)
def test_unknown_recipe_is_refused_with_what_may_be_meant(name: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        find(name)
    assert (caught.value.message, caught.value.hint) == (f"there is no recipe {name}", hint)


@pytest.mark.parametrize(
    ("data", "origin", "lacks"),
    [
        ("imagenet", "recipe imagenet_1hour", True),
        ("imagenet", "flag", False),
        ("cifar10", "recipe cifar10_94", False),
        (".", "recipe imagenet_1hour", False),
    ],
)
def test_folder_of_a_recipe_that_is_not_here_is_lacking(data: str, origin: str, lacks: bool) -> None:
    assert lacks_data(data, origin) is lacks


@pytest.mark.parametrize("name", names())
def test_lines_of_the_head_fit_a_terminal_of_100_columns(name: str) -> None:
    lines = [line for line in find(name).text.splitlines() if line.startswith("#")]
    assert [line for line in lines if len(line) > 100 and not line.startswith("# command:")] == []
