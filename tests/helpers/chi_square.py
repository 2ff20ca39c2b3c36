"""Are draws distributed as they should be?"""

import torch
from torch import Tensor

_DEVIATIONS = 4
"""Above the mean of χ²: 1 of 10,000 seeds fails, and seeds are fixed."""


def fits(counts: Tensor, expected: Tensor) -> bool:
    """Return whether counts are as expected by Pearson's χ², whose variance is twice its degrees of freedom."""
    freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return bool((statistic - freedom) / (2 * freedom) ** 0.5 < _DEVIATIONS)


def is_uniform(draws: Tensor, bins: int = 20) -> bool:
    """Return whether draws are uniform in [0, 1)."""
    counts = torch.histc(draws.float(), bins, 0, 1)
    return int(counts.sum()) == len(draws) and fits(counts, torch.full_like(counts, len(draws) / bins))
