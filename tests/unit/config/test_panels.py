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
    assert refusal(lr=lr).message in (f"--lr {lr}: must be greater than 0", f"--lr {lr}: must be finite")


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
        ("batch_norm_momentum", 0),
        ("batch_norm_momentum", 1.1),
        ("head_init_std", 0),
        ("weight_decay", -1e-9),
        ("gamma", 1),
        ("clip_norm", 0),
        ("optimizer", "lion"),
        ("strategy", "zero"),
        ("precision", "int8"),
        ("milestones", ["x"]),
        ("timeout", 0),
        ("processes", 0),
        ("threads", 0),
        ("threads", 1025),
        ("workers", 1025),
        ("timeout", 1_000_001),
        ("image_size", 10_001),
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
        ({"milestones": [30]}, "--milestones needs --schedule step, not cosine"),
        ({"schedule": "linear", "gamma": 0.5}, "--gamma needs --schedule step, not linear"),
        ({"lr_scaling": "none", "lr_base_batch": 64}, "--lr-base-batch has no effect with --lr-scaling none"),
        ({"lr": 0.1, "lr_base_batch": 64}, "--lr-base-batch has no effect with --lr alone"),
        ({"warmup_epochs": 0, "warmup_from": 0.1}, "--warmup-from has no effect with --warmup-epochs 0"),
        (
            {"weights": "DEFAULT", "zero_init_residual": False},
            "--no-zero-init-residual has no effect with --weights DEFAULT",
        ),
        ({"weights": "w.pt", "head_init_std": 0.01}, "--head-init-std 0.01 has no effect with --weights w.pt"),
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


@pytest.mark.parametrize("name", ["output", "data_dir", "weights", "data", "resume"])
def test_home_folder_is_found_in_every_path(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for given, expected in (("~/x", "/home/me/x"), ("a/~", "a/~"), ("~nobody-here/x", "~nobody-here/x")):
        config = make_config(TrainConfig, {name: given}, {})
        assert str(getattr(config, name)) == expected


def test_empty_name_of_the_data_is_rejected() -> None:
    assert refusal(data="").message == "--data '': the name is empty; is a variable of the shell unset?"
    assert refusal(model="").message == "--model '': the name is empty; is a variable of the shell unset?"
    assert refusal(label_column="").message == "--label-column '': the name is empty; is a variable of the shell unset?"
    assert refusal(output="").message == "--output '': the name is empty; is a variable of the shell unset?"


@pytest.mark.parametrize(("decay", "half_life"), [(0.999, "44339"), (0.9, "421"), (0.5, "64")])
def test_ema_decay_is_not_taken_for_a_half_life(decay: float, half_life: str) -> None:
    refused = refusal(ema=decay)
    assert refused.message == f"--ema {decay:g} is a half-life in images, not a decay"
    assert refused.hint == f"a decay of {decay:g} per update of 64 images is --ema {half_life}"
    assert make_config(TrainConfig, {"ema": 1}, {}).ema == 1
