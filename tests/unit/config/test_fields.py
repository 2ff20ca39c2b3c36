"""Panels, markers and help are read off the class that declares a field."""

from typing import Annotated, get_args

import pytest
from pydantic import ValidationError

from accel_train.config.fields import (
    Config,
    Everyday,
    FreeOnResume,
    OptimizerName,
    Placement,
    RuleName,
    ScalingName,
    StrategyName,
    help_of,
    marked,
    panel_of,
)
from accel_train.config.lr_schedule import RULES, SCALINGS
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import EvaluateConfig, TrainConfig
from accel_train.config.strategies import STRATEGIES


class Upper(Config):
    panel = "Upper"

    first: Annotated[int, Placement()] = 1
    """One line."""
    second: Annotated[int | None, Everyday(), FreeOnResume()] = None
    """Two lines, of which this
    is the second."""


class Lower(Upper):
    panel = "Lower"

    second: Annotated[int, Placement()] = 2
    """Redeclared."""
    third: int = 3


def test_panel_is_that_of_the_class_that_declares_the_field() -> None:
    assert [panel_of(Lower, name) for name in ("first", "second", "third")] == ["Upper", "Lower", "Lower"]


def test_help_is_the_docstring_on_one_line() -> None:
    assert help_of(Upper, "second") == "Two lines, of which this is the second."
    assert help_of(Lower, "first") == "One line."
    assert help_of(Lower, "third") == ""


def test_marked_returns_fields_with_any_of_the_markers() -> None:
    assert marked(Upper, Placement) == {"first"}
    assert marked(Upper, Placement, FreeOnResume) == {"first", "second"}
    assert marked(Upper, Everyday) == {"second"}
    assert marked(Lower, Placement) == {"first", "second"}
    assert marked(Lower, Everyday) == set()


def test_config_is_frozen_and_has_no_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TrainConfig().epochs = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        TrainConfig(epochz=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [TrainConfig, EvaluateConfig])
def test_every_field_has_help(kind: type[Config]) -> None:
    for name in kind.model_fields:
        assert help_of(kind, name).endswith("."), name


def test_help_tells_every_default_that_is_computed() -> None:
    off = {"target_accuracy", "patience", "time_limit", "milestones", "pipeline_stages"}
    computed = {name for name, field in TrainConfig.model_fields.items() if field.default is None} - off
    assert {name for name in TrainConfig.model_fields if "Default: " in help_of(TrainConfig, name)} == computed


def test_every_field_of_training_is_in_a_panel_and_panels_stay_together() -> None:
    panels = [panel_of(TrainConfig, name) for name in TrainConfig.model_fields]
    order = [
        "Data",
        "Augmentation",
        "Mixing and balance",
        "Model",
        "Fine-tuning",
        "Run",
        "Batch",
        "Optimization",
        "Learning rate",
        "Hardware",
        "Strategy",
        "Checkpoints",
        "Tracking",
    ]
    assert list(dict.fromkeys(panels)) == order
    assert panels == sorted(panels, key=lambda panel: order.index(str(panel)))


def test_choices_are_the_rows_of_the_tables() -> None:
    assert get_args(OptimizerName) == tuple(OPTIMIZERS)
    assert get_args(RuleName) == tuple(RULES)
    assert get_args(ScalingName) == tuple(SCALINGS)
    assert get_args(StrategyName) == ("auto", *STRATEGIES)
