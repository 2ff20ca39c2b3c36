"""Measures images per second from when updates are done, validation apart."""

import math
from collections.abc import Callable

from accel_train.events import UpdateDone


class Pace:
    """The speed of the current epoch, counted from its first update, whose own duration is unknown."""

    def __init__(self, global_batch: int, clock: Callable[[], float]) -> None:
        self._global_batch = global_batch
        self._clock = clock
        self._first = self._last = UpdateDone(epoch=0, update=0)
        self._since = math.nan

    def count(self, event: UpdateDone) -> None:
        """Take note of an update; called for each one, so it does next to nothing."""
        self._last = event
        if event.epoch != self._first.epoch:
            self._first = event
            self._since = self._clock()

    def images_per_second(self) -> float:
        """Return the speed over all processes up to now; NaN before an epoch's second update."""
        images = (self._last.update - self._first.update) * self._global_batch
        elapsed = self._clock() - self._since
        return images / elapsed if images and elapsed > 0 else math.nan
