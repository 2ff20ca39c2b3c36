"""Each number of a learning rate has its origin, and the curve keeps the updates where it bends."""

from typing import Any

import pytest

from accel_train.cli.schedule_rows import curve_points, rate_rows
from accel_train.config.load import make_config
from accel_train.config.lr_schedule import Schedule
from accel_train.config.options import TrainConfig
from accel_train.config.plan import make_plan
from accel_train.config.resolve import resolve

IMAGENET = {
    **{"lr": 0.1, "lr_scaling": "linear", "global_batch_size": 8192, "batch_size": 32, "epochs": 90},
    **{"warmup_epochs": 5, "schedule": "step", "milestones": "30,60,80", "model": "resnet50"},
}


def rows(images: int, processes: int = 1, kind: str = "digits", stages: int = 1, **options: Any) -> dict[str, str]:
    """Return the rows of a run by their labels; a row without one continues that above."""
    given = dict.fromkeys(options, "flag")
    config, origins = resolve(make_config(TrainConfig, options, given), given, kind, images, "fp32")
    found: dict[str, str] = {}
    for label, text in rate_rows(config, origins, make_plan(config, processes, images, stages=stages), images):
        key = label or [*found][-1]
        found[key] = f"{found[key]}; {text}" if key in found else text
    return found


def test_defaults_are_said_to_be_defaults() -> None:
    assert rows(1438) == {
        "base rate": "0.1 (default for cnn with sgd), for 256 images per update (default)",
        "global batch": "64 images: batch size 64 (default for digits of 1,438 images)",
        "scaling": "0.1 × 64 / 256 = 0.025, linear (default for sgd)",
        "limit": "0.05 (default for cnn with sgd)",
        "peak": "0.025",
        "warmup": "22 updates from 0.00025 (1 % of the peak); 1 epoch (default for digits)",
        "updates": "440: 22 in each epoch, 30 of 1,438 images dropped in each",
        "epochs": "20 (default for digits)",
        "schedule": "cosine (default)",
        "last update": "3.53e-07",
    }


def test_imagenet_in_one_hour_is_explained() -> None:
    """Goyal et al. 2017: 0.1 at 256 is 3.2 at 8,192; warmup starts at the base rate; drops count from epoch 0."""
    found = rows(1_281_167, processes=256, kind="folder", **IMAGENET)
    assert found["base rate"] == "0.1 (--lr), for 256 images per update (default)"
    assert found["global batch"] == "8,192 images (--global-batch-size)"
    assert found["scaling"] == "0.1 × 8,192 / 256 = 3.2, linear (--lr-scaling)"
    assert found["peak"] == "3.2"
    assert found["warmup"] == "780 updates from 0.1 (the base rate, which scaling raised); 5 epochs (--warmup-epochs)"
    assert found["milestones"] == "30,60,80 (--milestones); updates 4,680, 9,360, 12,480"
    assert found["gamma"] == "0.1 (default)"
    assert "limit" not in found


@pytest.mark.parametrize(
    ("options", "label", "text"),
    [
        ({"lr": 0.05}, "scaling", "none (because --lr was given)"),
        ({"batch_size": 256}, "peak", "0.05, the limit"),
        ({"lr": 0.01, "warmup_from": 0.5}, "peak", "0.01"),
        (
            {"lr": 0.01, "warmup_from": 0.5},
            "warmup",
            "22 updates from 0.5 (--warmup-from), above the peak: the rate falls; above 0.05, the default limit of cnn "
            "with sgd, it may diverge; 1 epoch (default for digits)",
        ),
        ({"lr": 0.5}, "peak", "0.5: above 0.05, the default limit of cnn with sgd, it may diverge"),
        ({"warmup_epochs": 0}, "warmup", "none: 0 epochs (--warmup-epochs)"),
        ({"warmup_from": 0.01}, "warmup", "22 updates from 0.01 (--warmup-from); 1 epoch (default for digits)"),
        (
            {"warmup_from": 0.04},
            "warmup",
            "22 updates from 0.04 (--warmup-from), above the peak: the rate falls; 1 epoch (default for digits)",
        ),
        ({"optimizer": "adamw", "batch_size": 256}, "betas, eps", "0.9, 0.999, 1e-08 (scaled with the batch)"),
        ({"optimizer": "adamw", "lr": 1e-3}, "betas, eps", "0.9, 0.999, 1e-08"),
        (
            {"optimizer": "lars", "lr": 0.2, "lr_scaling": "sqrt"},
            "scaling",
            "0.2 × √(64 / 256) = 0.1, sqrt (--lr-scaling)",
        ),
    ],
)
def test_options_are_named_where_they_decide(options: dict[str, Any], label: str, text: str) -> None:
    assert rows(1438, **options)[label] == text


def test_processes_and_accumulation_make_the_global_batch() -> None:
    assert rows(1438, processes=2, batch_size=32, accumulate=3)["global batch"] == (
        "192 images: batch size 32 (--batch-size) × 2 processes × accumulate 3"
    )
    assert rows(1438, processes=4, stages=2, batch_size=32)["global batch"] == (
        "64 images: batch size 32 (--batch-size) × 2 replicas"
    )


def test_curve_has_all_updates_of_a_short_run() -> None:
    schedule = Schedule("cosine", peak=0.1, total_updates=40, warmup_updates=8)
    assert curve_points(schedule) == [(update + 1, schedule(update)) for update in range(40)]


def test_curve_of_a_long_run_keeps_where_it_bends() -> None:
    schedule = Schedule("step", peak=0.1, total_updates=450_000, warmup_updates=25_001, milestones=(150_007, 300_011))
    points = dict(curve_points(schedule))
    assert len(points) < 1100
    assert (points[1], points[450_000]) == (0, pytest.approx(0.001))
    assert points[25_002] == 0.1
    assert (points[150_007], points[150_008]) == (0.1, pytest.approx(0.01))
    assert (points[300_011], points[300_012]) == (pytest.approx(0.01), pytest.approx(0.001))
