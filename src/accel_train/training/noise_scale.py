"""Gradient noise scale: up to which number of images per update a larger batch helps (McCandlish et al. 2018).

B = tr(Σ) / |G|² images. tr(Σ) is the variance of one image's gradient, summed over all weights; G is the true gradient,
which is the mean over all images. A batch well below B halves the updates when it doubles; one well above B hardly
saves any.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

WINDOW = 50
"""Measured updates that a noise scale is computed from: it grows while a run trains."""
_FEWEST = 5
_CONFIDENCE = 0.95


class Gradient(NamedTuple):
    """Unbiased estimates from one update (McCandlish et al. 2018, A.1)."""

    variance: float
    """tr(Σ)"""
    square: float
    """|G|²; may be negative."""

    def share(self, batch_size: int) -> float:
        """Return the share of |G|² in the squared gradient norm of micro-batches, which is |G|² + tr(Σ) / n."""
        return self.square / (self.square + self.variance / batch_size)


class NoiseScale(NamedTuple):
    """A noise scale in images, and its 95 % interval."""

    value: float | None
    """None: the true gradient cannot be told from zero, so that the noise scale may be infinite."""
    low: float
    high: float | None
    """None: no upper limit."""


def estimate(small: float, large: float, batch_size: int, global_batch: int) -> Gradient:
    """Return what squared gradient norms tell: the mean of those of micro-batches, and that of their whole update."""
    variance = (small - large) / (1 / batch_size - 1 / global_batch)
    return Gradient(variance, large - variance / global_batch)


def noise_scale(shares: Sequence[float], batch_size: int) -> NoiseScale | None:
    """Return the noise scale by the shares of |G|² in several updates; None if they are too few.

    The mean of shares, unlike that of norms, is not that of the few updates with the largest gradients. The interval is
    Student's, which takes updates as independent of each other.
    """
    count = len(shares)
    if count < _FEWEST:
        return None
    mean, error = fmean(shares), _student(count - 1) * stdev(shares) / math.sqrt(count)
    low = _images(mean + error, batch_size)
    return NoiseScale(_images(mean, batch_size), 0.0 if low is None else low, _images(mean - error, batch_size))


def _images(share: float, batch_size: int) -> float | None:
    """Return the noise scale for a share of |G|²; None: it is infinite."""
    return batch_size * max(0.0, 1 / share - 1) if share > 0 else None


def _student(freedom: int) -> float:
    """Return the quantile of Student's t distribution, from 4 degrees of freedom on within 0.5 % (Fisher's series)."""
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / float(freedom) ** power for power, term in enumerate(terms))
