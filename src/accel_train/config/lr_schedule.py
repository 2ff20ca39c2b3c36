"""Learning rate schedules: pure functions of the update index."""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every update of a run.

    Warmup is linear, from `warmup_from` at update 0 to `peak` at update `warmup_updates` (Goyal et al. 2017, §2.2).
    `rule` is a key of :data:`RULES`. Milestones are update indices; they count the updates of warmup too.
    """

    rule: str
    peak: float
    total_updates: int
    warmup_updates: int = 0
    warmup_from: float = 0.0
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1

    def __call__(self, update: int) -> float:
        """Return the learning rate of an update, counted from 0."""
        if update < self.warmup_updates:
            return self.warmup_from + (self.peak - self.warmup_from) * update / self.warmup_updates
        return self.peak * RULES[self.rule](self, update)

    @property
    def highest(self) -> float:
        """The highest learning rate of all updates: that of the first, or the peak."""
        return max(self(0), self.peak)

    def _progress(self, update: int) -> float:
        """Return the fraction of the updates after warmup that are done."""
        return (update - self.warmup_updates) / max(1, self.total_updates - self.warmup_updates)


def _constant(schedule: Schedule, update: int) -> float:
    return 1.0


def _cosine(schedule: Schedule, update: int) -> float:
    return 0.5 * (1 + math.cos(math.pi * schedule._progress(update)))


def _linear(schedule: Schedule, update: int) -> float:
    return 1 - schedule._progress(update)


def _step(schedule: Schedule, update: int) -> float:
    return schedule.gamma ** sum(update >= milestone for milestone in schedule.milestones)


RULES: dict[str, Callable[[Schedule, int], float]] = {
    "constant": _constant,
    "cosine": _cosine,
    "step": _step,
    "linear": _linear,
}
"""Multiplier of the peak at an update after warmup, by the value of ``--schedule``."""

SCALINGS: dict[str, Callable[[float], float]] = {
    "none": lambda ratio: 1.0,
    "linear": lambda ratio: ratio,
    "sqrt": math.sqrt,
}
"""Multiplier of the learning rate at `ratio` times the base batch, by the value of ``--lr-scaling``: linear for SGD
(Goyal et al. 2017), sqrt for the Adam family (Malladi et al. 2022)."""
