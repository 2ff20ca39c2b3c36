"""McNemar's test equals the values of scipy and statsmodels."""

import numpy as np
import pytest
from scipy import stats

from accel_train.metrics.mcnemar import PairedTest, paired_test


def of_counts(both: int, only_first: int, only_second: int, neither: int) -> PairedTest:
    counts = (both, only_first, only_second, neither)
    first = np.repeat([True, True, False, False], counts)
    second = np.repeat([True, False, True, False], counts)
    order = np.random.default_rng(0).permutation(len(first))
    return paired_test(first[order], second[order])


@pytest.mark.parametrize("counts", [(5, 0, 0, 1), (3, 1, 0, 0), (0, 2, 9, 4), (50, 7, 7, 0), (9, 400, 463, 12)])
def test_few_discordant_images_are_tested_exactly(counts: tuple[int, int, int, int]) -> None:
    found = of_counts(*counts)
    assert (found.both, found.only_first, found.only_second, found.neither) == counts
    discordant = found.only_first + found.only_second
    expected = stats.binomtest(found.only_first, discordant).pvalue if discordant else 1.0
    assert found.exact
    assert found.p_value == pytest.approx(expected, rel=1e-12)


def test_table_of_statsmodels_has_its_values() -> None:
    """statsmodels' documentation of `mcnemar` has this table, and p = 4.434449263755176e-06 if exact."""
    found = of_counts(101, 121, 59, 33)
    assert found.p_value == pytest.approx(4.434449263755176e-06, rel=1e-12)
    assert found.images == 314
    assert found.difference == pytest.approx(-62 / 314)


def test_many_discordant_images_are_tested_by_chi_squared() -> None:
    found = of_counts(10, 700, 650, 10)
    assert not found.exact
    assert found.p_value == pytest.approx(stats.chi2.sf(49**2 / 1350, 1), rel=1e-12)
    assert found.p_value == pytest.approx(stats.binomtest(700, 1350).pvalue, rel=0.01)


def test_interval_of_the_difference_is_that_of_bonett_and_price() -> None:
    found = of_counts(60, 5, 15, 20)
    p_second, p_first = 16 / 102, 6 / 102
    middle = p_second - p_first
    half = stats.norm.ppf(0.975) * ((p_second + p_first - middle**2) / 102) ** 0.5
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half), rel=1e-12)
    assert found.low < found.difference == 0.1 < found.high


def test_interval_stays_within_one() -> None:
    assert (of_counts(0, 0, 1, 0).high, of_counts(0, 1, 0, 0).low) == (1.0, -1.0)
