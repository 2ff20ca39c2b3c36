"""An LR range test suggests the rate up to which the loss falls, and ends when it diverges."""

import math
from collections.abc import Sequence

import pytest

from accel_train.training.lr_range import Tried, has_diverged, smoothed, suggest

UPDATES = 100


def rate(update: int) -> float:
    return float(10 ** (-4 + 5 * update / (UPDATES - 1)))


def tried(losses: Sequence[float]) -> list[Tried]:
    return [Tried(rate(update), loss) for update, loss in enumerate(losses)]


def falling_until(update: int, *, then: float) -> list[float]:
    """Return losses that stay at 2.3 for 40 updates, fall by 0.03 each up to one, and rise by `then` after it."""
    return [2.3 - 0.03 * max(0, min(u, update) - 40) + then * max(0, u - update) for u in range(UPDATES)]


def test_suggestion_is_the_rate_up_to_which_the_loss_falls() -> None:
    found = suggest(tried(falling_until(70, then=0.05)))
    assert found.lr == pytest.approx(rate(69), rel=0.15)
    assert found.rises_from is not None
    assert rate(70) < found.rises_from < rate(80)
    assert found.diverged_at is None
    assert len(found.losses) == UPDATES


@pytest.mark.parametrize(
    ("falls_until", "suggested"),
    [(0.0757, 0.075), (0.96, 0.96), (0.0999, 0.099), (1.0, 1.0), (12.9, 12.0), (3e-5, 3e-5)],
)
def test_suggestion_is_not_above_the_rate_that_was_found(falls_until: float, suggested: float) -> None:
    found = suggest([Tried(falls_until, 2.3 - 0.02 * n) for n in range(UPDATES)])
    assert (found.falls_until, found.lr) == (falls_until, suggested)
    assert found.lr <= found.falls_until


def test_a_lower_loss_after_a_rise_is_not_looked_for() -> None:
    losses = falling_until(60, then=0.04)
    again = [*losses[:75], *[losses[74] - 0.1 * n for n in range(1, 26)]]
    assert suggest(tried(again)).falls_until == suggest(tried(losses)).falls_until


def test_noise_before_the_fall_is_no_minimum() -> None:
    noisy = [loss + 0.02 * (-1) ** (u // 5) for u, loss in enumerate(falling_until(70, then=0.05))]
    assert suggest(tried(noisy)).falls_until == pytest.approx(rate(69), rel=0.3)


def test_loss_that_falls_to_the_end_gives_the_highest_rate() -> None:
    found = suggest(tried(falling_until(UPDATES, then=0.0)))
    assert (found.falls_until, found.rises_from, found.diverged_at) == (rate(99), None, None)


@pytest.mark.parametrize("change", [0.0, -0.0005, 0.01], ids=["flat", "hardly falling", "rising"])
def test_loss_that_does_not_fall_gives_no_suggestion(change: float) -> None:
    assert suggest(tried([2.3 + change * u for u in range(UPDATES)])).lr is None


@pytest.mark.parametrize("last", [math.nan, math.inf, 1e30])
def test_divergence_does_not_move_the_suggestion(last: float) -> None:
    losses = falling_until(70, then=0.05)[:80]
    found, plain = suggest(tried([*losses, last])), suggest(tried(losses))
    assert found.lr == plain.lr
    assert found.diverged_at == (rate(80) if not math.isfinite(last) or last > 10 else None)
    assert all(map(math.isfinite, found.losses))


def test_smoothing_keeps_a_constant_and_bounds_outliers() -> None:
    assert smoothed([2.0] * 30) == pytest.approx([2.0] * 30)
    assert max(smoothed([*[2.0] * 29, math.nan])) < 3.0


def test_training_has_diverged_if_what_it_learnt_is_lost() -> None:
    start = [2.3] * 10
    assert not has_diverged(start)
    assert not has_diverged([*start, 7.0])  # a single update
    assert has_diverged([*start, *[3.5] * 5])  # one and a half times the loss at the start
    assert not has_diverged([*start, *[1.0] * 5, *[2.3] * 5])
    assert has_diverged([*start, *[0.5] * 5, *[2.3] * 5])  # more than four times the lowest
    assert has_diverged([2.3, math.nan])
    assert not has_diverged([2.3] * 4)
