"""Learning rates equal their formulas at the updates where schedules start, change and end."""

import math

import pytest

from accel_train.config.lr_schedule import RULES, SCALINGS, Schedule


def test_warmup_is_linear_from_update_0_to_the_peak() -> None:
    schedule = Schedule("constant", peak=3.2, total_updates=10, warmup_updates=5, warmup_from=0.1)
    assert [schedule(u) for u in range(7)] == pytest.approx([0.1, 0.72, 1.34, 1.96, 2.58, 3.2, 3.2], rel=1e-12)


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ("constant", {0: 1.0, 1: 1.0, 50: 1.0, 99: 1.0}),
        ("cosine", {0: 1.0, 25: (1 + math.sqrt(0.5)) / 2, 50: 0.5, 75: (1 - math.sqrt(0.5)) / 2, 99: 2.4672e-4}),
        ("linear", {0: 1.0, 1: 0.99, 50: 0.5, 99: 0.01}),
        ("step", {0: 1.0, 29: 1.0, 30: 0.5, 59: 0.5, 60: 0.25, 99: 0.25}),
    ],
)
def test_schedule_without_warmup(rule: str, shares: dict[int, float]) -> None:
    schedule = Schedule(rule, peak=0.4, total_updates=100, milestones=(30, 60), gamma=0.5)
    found = {update: schedule(update) / 0.4 for update in shares}
    assert found == pytest.approx(shares, rel=1e-4)
    assert found[0] == 1.0


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ("constant", {0: 0.25, 19: 0.9625, 20: 1.0, 99: 1.0}),
        ("cosine", {0: 0.25, 19: 0.9625, 20: 1.0, 60: 0.5, 99: (1 - math.cos(math.pi / 80)) / 2}),
        ("linear", {0: 0.25, 19: 0.9625, 20: 1.0, 60: 0.5, 99: 1 / 80}),
        ("step", {0: 0.25, 19: 0.9625, 20: 1.0, 29: 1.0, 30: 0.5, 99: 0.25}),
    ],
)
def test_schedule_decays_after_warmup_and_milestones_include_warmup(rule: str, shares: dict[int, float]) -> None:
    schedule = Schedule(
        rule, peak=1.0, total_updates=100, warmup_updates=20, warmup_from=0.25, milestones=(30, 60), gamma=0.5
    )
    assert {update: schedule(update) for update in shares} == pytest.approx(shares, rel=1e-12)


def test_parameters_above_cover_every_rule() -> None:
    assert set(RULES) == {"constant", "cosine", "linear", "step"}


@pytest.mark.parametrize("rule", RULES)
def test_run_of_warmup_and_one_update_reaches_its_peak(rule: str) -> None:
    schedule = Schedule(rule, peak=2.0, total_updates=4, warmup_updates=3, warmup_from=0.5)
    assert [schedule(u) for u in range(4)] == [0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize(("rule", "expected"), [("none", 1.0), ("linear", 32.0), ("sqrt", math.sqrt(32))])
def test_scaling_from_256_to_8192_images(rule: str, expected: float) -> None:
    assert SCALINGS[rule](8192 / 256) == expected


@pytest.mark.parametrize("rule", SCALINGS)
def test_scaling_leaves_the_learning_rate_at_the_base_batch(rule: str) -> None:
    assert SCALINGS[rule](1.0) == 1.0


def test_schedule_of_imagenet_in_one_hour() -> None:
    """Goyal et al. 2017, §2.1, §2.2 and §5.1: ImageNet's 1,281,167 images, 8,192 of them per update."""
    epoch = 1_281_167 // 8192
    schedule = Schedule(
        "step",
        peak=0.1 * SCALINGS["linear"](8192 / 256),
        total_updates=90 * epoch,
        warmup_updates=5 * epoch,
        warmup_from=0.1,
        milestones=(30 * epoch, 60 * epoch, 80 * epoch),
        gamma=0.1,
    )
    expected = {
        0: 0.1,
        epoch: 0.72,
        5 * epoch - 1: 3.2 - 3.1 / (5 * epoch),
        5 * epoch: 3.2,
        30 * epoch - 1: 3.2,
        30 * epoch: 0.32,
        60 * epoch - 1: 0.32,
        60 * epoch: 0.032,
        80 * epoch - 1: 0.032,
        80 * epoch: 0.0032,
        90 * epoch - 1: 0.0032,
    }
    assert epoch == 156
    assert {update: schedule(update) for update in expected} == pytest.approx(expected, rel=1e-12)
