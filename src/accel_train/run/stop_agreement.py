"""Lets all ranks agree, between updates, to save or to stop."""

import time
from collections.abc import Callable
from typing import Any

from accel_train.distributed import process_group
from accel_train.system.signals import ORPHANED, SIGNALS, Reason, StopSignals

_SECONDS_BETWEEN_EXCHANGES = 0.25
_MARGIN_SECONDS = 30.0  # left of a time limit for saving; a quarter of a short limit
_TIME_LIMIT = Reason("the time limit", 0)
_REASONS = (*SIGNALS.values(), ORPHANED, _TIME_LIMIT)
_NONE = -1


class StopAgreement:
    """Exchanges the reasons to stop of all ranks a few times a second.

    The interval is counted in updates, so that all ranks exchange at the same one. Rank 0's clock decides how many
    updates that is, when the time limit is reached and when it is time to save.
    """

    def __init__(
        self,
        group: Any,
        signals: StopSignals,
        *,
        seconds_left: float | None,
        save_seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._group = group
        self._signals = signals
        self._clock = clock
        now = clock()
        self._stop_at = None if seconds_left is None else now + seconds_left - min(_MARGIN_SECONDS, seconds_left / 4)
        self._save_seconds = save_seconds
        self._last_save = now
        self._last_call = now
        self._updates, self._validation_batches, self._epochs = _Pace(now), _Pace(now), _Pace(now)
        self.stop: Reason | None = None
        """Why all ranks stop, once they have agreed."""

    def after_update(self) -> bool:
        """Collective: exchange after an update; return whether it is time to save."""
        self._measure_loop()
        if not self._updates.is_due():
            return False
        save = self._save_seconds is not None and self._clock() - self._last_save >= self._save_seconds
        if not self._exchange(self._updates, save):
            return False
        self._last_save = self._clock()
        return True

    def after_epoch(self) -> None:
        """Collective: exchange after an epoch, so that a reason that is known stops the run there."""
        self._measure_loop()
        if self._epochs.is_due():
            self._exchange(self._epochs, False)

    def interrupted(self) -> bool:
        """Collective: return whether to stop; called between the batches of a validation."""
        self._measure_loop()
        if self._validation_batches.is_due():
            self._exchange(self._validation_batches, False)
        return self.stop is not None

    def _measure_loop(self) -> None:
        now = self._clock()
        self._signals.loop_seconds = max(self._signals.loop_seconds, now - self._last_call)
        self._last_call = now

    def _exchange(self, pace: "_Pace", save: bool) -> bool:
        """Collective: agree on stopping; return whether rank 0 wants to save."""
        now = self._clock()
        reason = self._signals.reason
        if reason is None and self._stop_at is not None and now >= self._stop_at:
            reason = _TIME_LIMIT
        own = [_REASONS.index(reason) if reason else _NONE, int(save), pace.next_exchange(now)]
        by_rank = process_group.exchange(self._group, own)
        _, save_now, calls = by_rank[0]
        pace.begin(self._clock(), calls)
        reasons = [number for number, _, _ in by_rank if number != _NONE]
        if reasons and self.stop is None:
            self.stop = _REASONS[reasons[0]]
            self._signals.acknowledged()
        return bool(save_now)


class _Pace:
    """Turns an interval of time into a number of calls."""

    def __init__(self, now: float) -> None:
        self.begin(now, 1)

    def begin(self, now: float, calls: int) -> None:
        self._since = now
        self._calls = self._left = calls

    def is_due(self) -> bool:
        self._left -= 1
        return self._left <= 0

    def next_exchange(self, now: float) -> int:
        """Return the number of calls in about `_SECONDS_BETWEEN_EXCHANGES`."""
        per_second = self._calls / max(now - self._since, 1e-6)
        return max(1, min(2 * self._calls, int(per_second * _SECONDS_BETWEEN_EXCHANGES)))
