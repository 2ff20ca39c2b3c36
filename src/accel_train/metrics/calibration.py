"""Whether a model is right as often as its probabilities say.

Shape suffixes: N images, M bins.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 15
"""As in Guo et al., On Calibration of Modern Neural Networks, 2017, section 4."""


@dataclass(frozen=True)
class Reliability:
    """Images in bins of equal width by the probability of their prediction; NaN in empty bins."""

    edges: NDArray[np.float64]
    """Of the bins, shape (M + 1,); each holds its lower edge, the last one both."""
    images_M: NDArray[np.int64]
    confidences_M: NDArray[np.float64]
    """Mean probability of the predictions."""
    accuracies_M: NDArray[np.float64]
    """Share of correct predictions."""

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean distance of both over all images (Guo et al., 2017, equation 3)."""
        filled = self.images_M > 0
        gaps = np.abs(self.accuracies_M[filled] - self.confidences_M[filled])
        return float((gaps * self.images_M[filled]).sum() / max(1, self.images_M.sum()))


def reliability(confidences_N: NDArray[np.floating], correct_N: NDArray[np.bool_], bins: int = BINS) -> Reliability:
    """Return the bins of a reliability diagram."""
    edges = np.linspace(0, 1, bins + 1)
    bin_N = np.searchsorted(edges[1:-1], confidences_N, side="right")
    images_M = np.bincount(bin_N, minlength=bins)

    def means_M(values_N: NDArray[np.float64]) -> NDArray[np.float64]:
        sums_M = np.bincount(bin_N, weights=values_N, minlength=bins)
        found_M: NDArray[np.float64] = np.divide(sums_M, images_M, out=np.full(bins, np.nan), where=images_M > 0)
        return found_M

    return Reliability(
        edges, images_M, means_M(confidences_N.astype(np.float64)), means_M(correct_N.astype(np.float64))
    )
