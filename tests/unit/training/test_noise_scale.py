"""The gradient noise scale of a quadratic with known noise lies in its interval; too little evidence gives none."""

import math

import numpy as np
import pytest

from accel_train.training.noise_scale import Gradient, NoiseScale, estimate, noise_scale

WEIGHTS, BATCH_SIZE, GLOBAL_BATCH = 30, 4, 32
# 97.5 % quantiles of Student's t: B. W. Lindgren, Statistical Theory, table IIIa.
STUDENT = {4: 2.776, 9: 2.262, 49: 2.010}


def measured(generator: np.random.Generator, updates: int, square: float, spread: float) -> list[Gradient]:
    """Return the estimates of updates of 0.5 |w - x|², whose gradient is w - x; x has a normal distribution."""
    gradient = np.full(WEIGHTS, math.sqrt(square / WEIGHTS))
    found = []
    for _ in range(updates):
        images = gradient + spread * generator.standard_normal((GLOBAL_BATCH, WEIGHTS))
        micro_batches = images.reshape(-1, BATCH_SIZE, WEIGHTS).mean(axis=1)
        small, large = (micro_batches**2).sum(axis=1).mean(), (micro_batches.mean(axis=0) ** 2).sum()
        found.append(estimate(float(small), float(large), BATCH_SIZE, GLOBAL_BATCH))
    return found


def test_estimates_are_unbiased() -> None:
    variances, squares = np.array(measured(np.random.default_rng(0), 20_000, square=2.0, spread=0.5)).T
    for found, true in ((variances, WEIGHTS * 0.5**2), (squares, 2.0)):
        assert found.mean() == pytest.approx(true, abs=4 * found.std() / math.sqrt(len(found)))


def test_estimates_equal_the_variance_of_the_micro_batches() -> None:
    gradients = np.random.default_rng(1).standard_normal((8, WEIGHTS))
    mean = gradients.mean(axis=0)
    small, large = (gradients**2).sum(axis=1).mean(), (mean**2).sum()
    variance, square = estimate(small, large, 4, 32)
    assert variance == pytest.approx(4 * gradients.var(axis=0, ddof=1).sum())
    assert square == pytest.approx(large - variance / 32)


@pytest.mark.parametrize("updates", [5, 50])
@pytest.mark.parametrize("square", [2.0, 0.05])  # a noise scale of 3.75, and of 150, which is well above the batch
def test_interval_holds_the_true_noise_scale_in_95_percent_of_all_cases(updates: int, square: float) -> None:
    generator, true, cases = np.random.default_rng(updates), WEIGHTS * 0.5**2 / square, 1000
    hits = 0
    for _ in range(cases):
        shares = [each.share(BATCH_SIZE) for each in measured(generator, updates, square, spread=0.5)]
        found = noise_scale(shares, BATCH_SIZE)
        assert found is not None
        hits += found.low <= true <= (found.high or math.inf)
    error = math.sqrt(0.05 * 0.95 / cases)
    assert 0.95 - 4 * error < hits / cases < 0.95 + 4 * error


def test_share_is_that_of_the_true_gradient_in_the_norm_of_a_micro_batch() -> None:
    assert estimate(10.0, 4.0, 4, 16).share(4) == pytest.approx(2.0 / 10.0)  # tr(Σ) = 32, |G|² = 4 - 32 / 16


def test_noise_scale_is_the_variance_per_image_over_the_square() -> None:
    assert noise_scale([Gradient(32.0, 2.0).share(4)] * 5, 4) == pytest.approx((16.0, 16.0, 16.0))


def test_updates_with_large_gradients_count_as_others_do() -> None:
    shares = [Gradient(32.0 * size, 2.0 * size).share(4) for size in (1, 1, 1e6, 1, 1e-6)]
    assert noise_scale(shares, 4) == pytest.approx((16.0, 16.0, 16.0))


@pytest.mark.parametrize(("mean", "value"), [(0.1, 36.0), (-0.1, None), (0.0, None)])
def test_interval_has_no_upper_limit_if_the_gradient_may_be_zero(mean: float, value: float | None) -> None:
    found = noise_scale([mean + (-1.0) ** n for n in range(10)], 4)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert found.high is None
    assert found.low == pytest.approx(4 * (1 / (mean + STUDENT[9] / math.sqrt(9)) - 1), rel=0.1)


def test_noise_that_cannot_be_told_from_none_is_zero() -> None:
    assert noise_scale([Gradient(-1e-9, 2.0).share(4)] * 5, 4) == NoiseScale(0.0, 0.0, 0.0)


def test_nothing_but_noise_gives_no_limits() -> None:
    assert noise_scale([-0.1] * 5, 4) == NoiseScale(None, 0.0, None)


def test_few_updates_give_no_noise_scale() -> None:
    assert noise_scale([0.5] * 4, 4) is None


@pytest.mark.parametrize("freedom", STUDENT)
def test_interval_widens_by_the_quantile_of_student(freedom: int) -> None:
    shares = [0.5 + 0.1 * (-1) ** n for n in range(freedom + 1)]
    found = noise_scale(shares, 1)
    assert found is not None
    error = np.std(shares, ddof=1) / math.sqrt(len(shares))
    assert (1 / (found.low + 1) - np.mean(shares)) / error == pytest.approx(STUDENT[freedom], rel=0.005)
