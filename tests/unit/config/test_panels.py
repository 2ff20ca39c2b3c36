"""Values out of bounds and settings without effect are refused, panel by panel."""

from typing import Any

import pytest

from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.errors import UserError


def refusal(**given: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, given, dict.fromkeys(given, "flag"))
    return caught.value


@pytest.mark.parametrize("lr", [0, -1, float("nan"), float("inf"), float("-inf"), "nan", "inf", "0.0"])
def test_learning_rate_must_be_positive_and_finite(lr: float | str) -> None:
    assert refusal(lr=lr).message.startswith(f"--lr {lr}: input should be")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("accumulate", -1),
        ("workers", -1),
        ("workers", 2.5),
        ("workers", "some"),
        ("workers", True),
        ("cache", "disk"),
        ("seed", -1),
        ("seed", 2**63),
        ("val_fraction", 0),
        ("val_fraction", 1),
        ("label_smoothing", 1),
        ("weight_decay", -1e-9),
        ("gamma", 1),
        ("clip_norm", 0),
        ("optimizer", "lamb"),
        ("strategy", "zero"),
        ("precision", "int8"),
        ("milestones", ["x"]),
        ("timeout", 0),
        ("processes", 0),
        ("threads", 0),
        ("keep", 0),
        ("watch_every", -1),
        ("time_limit", "soon"),
        ("save_every", "often"),
    ],
)
def test_value_out_of_bounds_is_refused_by_its_option(name: str, value: Any) -> None:
    assert refusal(**{name: value}).message.startswith(f"--{name.replace('_', '-')} ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "step"}, "--schedule step has no milestones"),
        ({"schedule": "step", "milestones": []}, "--schedule step has no milestones"),
        ({"milestones": [30]}, "--milestones has no effect with --schedule cosine"),
        ({"schedule": "linear", "gamma": 0.5}, "--gamma has no effect with --schedule linear"),
        ({"lr_scaling": "none", "lr_base_batch": 64}, "--lr-base-batch has no effect with --lr-scaling none"),
        ({"lr": 0.1, "lr_base_batch": 64}, "--lr-base-batch has no effect with --lr alone"),
        ({"warmup_epochs": 0, "warmup_from": 0.1}, "--warmup-from has no effect with --warmup-epochs 0"),
    ],
)
def test_setting_without_effect_is_refused(given: dict[str, Any], message: str) -> None:
    error = refusal(**given)
    assert error.message == message
    assert error.hint


@pytest.mark.parametrize(
    "given", [{"lr_base_batch": 64}, {"lr": 0.1, "lr_base_batch": 64, "lr_scaling": "linear"}, {"watch_every": 0}]
)
def test_setting_with_effect_is_accepted(given: dict[str, Any]) -> None:
    config = make_config(TrainConfig, given, {})
    assert {name: getattr(config, name) for name in given} == given


def test_workers_can_be_a_number() -> None:
    assert make_config(TrainConfig, {"workers": 3}, {}).workers == "3"


def test_save_interval_is_stored_in_its_shortest_form() -> None:
    assert TrainConfig(save_every="600s").save_every == "10min"
