"""Measures images per second between updates, excluding validation."""

import math
from collections.abc import Callable

from accel_train.events import UpdateDone


class Throughput:
    """Images per second in the current epoch, excluding its first update, whose start is unknown."""

    def __init__(self, global_batch: int, clock: Callable[[], float]) -> None:
        self._global_batch = global_batch
        self._clock = clock
        self._first = self._last = UpdateDone(epoch=0, update=0)
        self._since = math.nan

    def count(self, event: UpdateDone) -> None:
        """Count an update; called for every update, so it must be cheap."""
        self._last = event
        if event.epoch != self._first.epoch:
            self._first = event
            self._since = self._clock()

    def images_per_second(self) -> float:
        """Return the throughput over all processes so far; NaN before the second update of an epoch."""
        images = (self._last.update - self._first.update) * self._global_batch
        elapsed = self._clock() - self._since
        return images / elapsed if images and elapsed > 0 else math.nan
