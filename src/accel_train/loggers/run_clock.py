"""The elapsed time of a run, and an estimate of the time left."""

from collections.abc import Callable

from accel_train.events import EpochEnd, PlanRecord, Resumed, UpdateDone
from accel_train.loggers.text import rough_duration

_FEWEST_UPDATES = 3
"""Measured updates before there is an estimate; the first of a run is not measured, it includes one-time costs."""


class RunClock:
    """Estimates the time left from the updates of this epoch and the last, and from what last came between epochs.

    That is validation, saving and starting the next epoch. Both follow a machine that becomes faster or slower.
    """

    def __init__(self, plan: PlanRecord, clock: Callable[[], float]) -> None:
        self._plan = plan
        self._clock = clock
        self._began = self._since = clock()
        self._last = UpdateDone(epoch=0, update=0)
        self._epochs = 0  # validated
        self._seconds, self._updates = 0.0, 0
        self._seconds_before, self._updates_before = 0.0, 0
        self._between: float | None = None

    def resume(self, event: Resumed) -> None:
        """Continue a run that has had some time and updates."""
        self._began -= event.seconds
        self._last = UpdateDone(epoch=0, update=event.update)
        self._epochs = event.epoch - 1

    def count(self, event: UpdateDone) -> None:
        """Count an update; called for every update, so it must be cheap."""
        now = self._clock()
        if event.epoch == self._last.epoch:
            self._seconds += now - self._since
            self._updates += 1
        else:
            self._begin_epoch(now)
        self._last, self._since = event, now

    def _begin_epoch(self, now: float) -> None:
        if self._between is not None:
            self._between = max(0.0, now - self._since - self._seconds_per_update())
        self._seconds_before, self._updates_before = self._seconds, self._updates
        self._seconds, self._updates = 0.0, 0

    def end_epoch(self, event: EpochEnd) -> None:
        """Count the end of a validation."""
        self._epochs = event.epoch
        self._between = self._clock() - self._since

    def elapsed(self) -> float:
        """Return the seconds since the start of the run, excluding the time between restarts."""
        return self._clock() - self._began

    def left(self) -> float | None:
        """Return the estimated seconds to the end of the last epoch; None if it is over, or if too little is known."""
        updates = self._plan.total_updates - self._last.update
        epochs = self._plan.epochs - self._epochs
        known = self._between is not None or self._updates + self._updates_before >= _FEWEST_UPDATES
        if not known or not epochs:
            return None
        return updates * self._seconds_per_update() + epochs * (self._between or 0.0)

    def left_text(self) -> str:
        """Return ``12 min left``, or nothing if there is no estimate."""
        left = self.left()
        return "" if left is None else f"{rough_duration(left)} left"

    def text(self) -> str:
        """Return ``3 min 20 s, 12 min left``."""
        return ", ".join(filter(None, (rough_duration(self.elapsed()), self.left_text())))

    def _seconds_per_update(self) -> float:
        updates = self._updates + self._updates_before
        return (self._seconds + self._seconds_before) / updates if updates else 0.0
