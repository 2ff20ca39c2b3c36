"""Which learning rate an LR range test suggests: pure functions of its losses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context

FEWEST = 20
"""Updates of a test."""
_FIRST = 5
"""Updates whose mean loss is that of an untrained model."""
_LOST, _ABOVE_BEST = 1.5, 4.0
"""Times the loss at the start, and the lowest one, from which on training has diverged."""
_SMOOTHING = 3.0
"""Standard deviation, in updates, of the Gaussian by which losses are averaged."""
_FALL = 0.1
"""Of the whole fall: what is less is noise."""
_NO_FALL = 0.05
"""Of the loss at the start: a test in which it falls less tells nothing."""


@dataclass(frozen=True)
class Tried:
    """One update of the test."""

    lr: float
    loss: float
    """Over all its images, before the update."""


@dataclass(frozen=True)
class Suggestion:
    """A learning rate and what speaks for it; losses are smoothed."""

    lr: float | None
    """`falls_until`, rounded down to two digits: another seed changes more. None: the loss did not fall."""
    falls_until: float
    """The learning rate up to which the loss falls."""
    rises_from: float | None
    """The one at which it has clearly risen. None: it never does."""
    diverged_at: float | None
    losses: tuple[float, ...]
    """Of all updates."""


def has_diverged(losses: Sequence[float]) -> bool:
    """Return whether training has diverged at the last of its losses."""
    if not math.isfinite(losses[-1]):
        return True
    if len(losses) < 2 * _FIRST:
        return False
    means = [sum(losses[i : i + _FIRST]) / _FIRST for i in range(len(losses) - _FIRST + 1)]
    return means[-1] > _LOST * means[0] or means[-1] > _ABOVE_BEST * min(means)


def suggest(tried: Sequence[Tried]) -> Suggestion:
    """Suggest the learning rate up to which the loss falls: above, training is no longer stable from update to update.

    Rates at which the loss is lowest, or falls fastest, are no better: in the first the loss may rise before, and the
    second depends on how noisy it is.
    """
    losses = smoothed([each.loss for each in tried])
    rates = [each.lr for each in tried]
    lowest, risen = _first_minimum(losses)
    fell = losses[0] - losses[lowest] > _NO_FALL * losses[0]
    return Suggestion(
        lr=_rounded_down(rates[lowest]) if fell else None,
        falls_until=rates[lowest],
        rises_from=None if risen is None else rates[risen],
        diverged_at=rates[-1] if has_diverged([each.loss for each in tried]) else None,
        losses=tuple(losses),
    )


def _rounded_down(rate: float) -> float:
    """Return a rate of two significant digits that is not above this one."""
    return float(Context(prec=2, rounding=ROUND_DOWN).create_decimal(repr(rate)))


def smoothed(losses: Sequence[float]) -> list[float]:
    """Average losses over updates before and after; one that has diverged counts as twice the loss at the start."""
    most = 2 * sum(losses[:_FIRST]) / _FIRST
    bounded = [loss if loss < most else most for loss in losses]
    found = []
    for i in range(len(bounded)):
        weights = [math.exp(-0.5 * ((i - j) / _SMOOTHING) ** 2) for j in range(len(bounded))]
        found.append(sum(w * loss for w, loss in zip(weights, bounded, strict=True)) / sum(weights))
    return found


def _first_minimum(losses: Sequence[float]) -> tuple[int, int | None]:
    """Return where the losses are lowest before they clearly rise, and where they have; None if they do not."""
    start, whole = losses[0], losses[0] - min(losses)
    lowest = 0
    for i, loss in enumerate(losses):
        fall = start - losses[lowest]
        if loss < losses[lowest]:
            lowest = i
        elif fall > _FALL * whole and loss > losses[lowest] + _FALL * fall:
            return lowest, i
    return lowest, None
