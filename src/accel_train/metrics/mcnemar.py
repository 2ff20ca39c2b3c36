"""McNemar's test: are two models that saw the same images equally often right?"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST_EXACT = 1_000
"""Images on which only one model is right, up to which the test is exact; it then takes less than a millisecond."""
_Z = 1.959963984540054
"""0.975 quantile of the standard normal distribution."""


@dataclass(frozen=True)
class PairedTest:
    """The images on which two models are right, and what follows from them."""

    both: int
    only_first: int
    only_second: int
    neither: int
    p_value: float
    """Probability of counts at least as far apart if the models are equally good."""
    exact: bool
    """False: approximated by a chi-squared distribution, as there are many images on which only one is right."""
    difference: float
    """Accuracy of the second minus that of the first."""
    low: float
    """Lower end of the 95 % interval of the difference, `high` its upper end: Bonett and Price (2012)."""
    high: float

    @property
    def images(self) -> int:
        return self.both + self.only_first + self.only_second + self.neither


def paired_test(first_N: NDArray[np.bool_], second_N: NDArray[np.bool_]) -> PairedTest:
    """Compare two models by whether each of N images, at least one, is classified correctly."""
    both, neither = int((first_N & second_N).sum()), int((~first_N & ~second_N).sum())
    only_first, only_second = int((first_N & ~second_N).sum()), int((~first_N & second_N).sum())
    images, exact = len(first_N), only_first + only_second <= _MOST_EXACT
    p_value = (_exact_p if exact else _approximate_p)(only_first, only_second)
    shares = (only_second + 1) / (images + 2), (only_first + 1) / (images + 2)
    middle = shares[0] - shares[1]
    half = _Z * math.sqrt((sum(shares) - middle**2) / (images + 2))
    return PairedTest(
        both=both,
        only_first=only_first,
        only_second=only_second,
        neither=neither,
        p_value=p_value,
        exact=exact,
        difference=(only_second - only_first) / images,
        low=max(-1.0, middle - half),
        high=min(1.0, middle + half),
    )


def _exact_p(first: int, second: int) -> float:
    """Return the two-sided p-value of the binomial distribution with one half."""
    discordant = first + second
    tail = sum(math.comb(discordant, k) for k in range(min(first, second) + 1))
    p_value: float = 2 * tail / 2**discordant
    return min(1.0, p_value)


def _approximate_p(first: int, second: int) -> float:
    """Return the p-value of the chi-squared distribution of one degree of freedom, with Edwards' correction."""
    statistic = max(0, abs(first - second) - 1) ** 2 / (first + second)
    return math.erfc(math.sqrt(statistic / 2))
