"""A number that was written in another way leads to the one that was meant; others lead to the help."""

import pytest

from accel_train.config.fields import help_of
from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.config.plan_options import PlanConfig
from accel_train.errors import UserError


def hint(name: str, value: object) -> str:
    with pytest.raises(UserError) as refused:
        make_config(TrainConfig, {name: value}, {name: "flag"})
    assert refused.value.message.startswith(f"--{name.replace('_', '-')} ")
    return refused.value.hint


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("lr", "0,05", "0.05"),
        ("lr", "-0.1", "0.1"),
        ("lr", "1e-3x", "0.001"),
        ("batch_size", "1,024", "1024"),
        ("batch_size", "64 images", "64"),
        ("batch_size", "63.7", "64"),
        ("batch_size", "-32", "32"),
        ("epochs", "10epochs", "10"),
        ("epochs", "1e2", "100"),
        ("limit", "12k", "12000"),
        ("image_size", "224px", "224"),
        ("target_accuracy", "95", "0.95"),
        ("target_accuracy", 95, "0.95"),
        ("target_accuracy", "95 %", "0.95"),
        ("target_accuracy", "0,95", "0.95"),
        ("val_fraction", "20%", "0.2"),
        ("label_smoothing", "10", "0.1"),
    ],
)
def test_number_in_another_notation_is_understood(name: str, value: object, meant: str) -> None:
    assert hint(name, value) == f"did you mean {meant}?"


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("epochs", "0", "use --epochs 1 or more"),
        ("timeout", "2000000", "use --timeout 1000000 or less"),
        ("target_accuracy", "1.5", "use --target-accuracy 1 or less"),
        ("time_limit", "04:00:00", "did you mean 4h?"),
        ("time_limit", "90", "did you mean 1h30min or 1min30s?"),
        ("time_limit", "30x", "write a whole number above 0 and its unit: d, h, min or s"),
        ("save_every", "100", "did you mean 100updates or 100epochs?"),
        ("save_every", "0epochs", "write a whole number above 0 and its unit: epochs, updates, d, h, min or s"),
    ],
)
def test_hint_is_what_to_write(name: str, value: str, fix: str) -> None:
    assert hint(name, value) == fix


def test_number_with_the_unit_of_its_option_is_understood() -> None:
    for name, value in {"gpu_memory": "80GB", "link_gbps": "80 Gbit/s", "images_per_second": "80 images/s"}.items():
        with pytest.raises(UserError) as refused:
            make_config(PlanConfig, {name: value}, {name: "flag"})
        assert refused.value.hint == "did you mean 80?"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", "0"),
        ("lr", "."),
        ("lr", "fast"),
        ("lr", "0.1.2"),
        ("epochs", ""),
        ("epochs", "0.4"),
        ("timeout", "5min"),
        ("label_smoothing", "200"),
        ("val_fraction", "1"),
        ("batch_size", "9" * 400),
        ("batch_size", "1e400"),
        ("batch_size", [8]),
    ],
)
def test_what_cannot_be_guessed_is_answered_with_the_help(name: str, value: object) -> None:
    assert hint(name, value) == f"--{name.replace('_', '-')}: {help_of(TrainConfig, name)}"
