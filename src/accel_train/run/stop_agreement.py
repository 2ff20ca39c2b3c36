"""Lets all processes of a run decide together, between updates, to save or to stop."""

import time
from collections.abc import Callable
from typing import Any

from accel_train.distributed import process_group
from accel_train.system.signals import ORPHANED, SIGNALS, Interruption, Reason

_SECONDS_BETWEEN_TALKS = 0.25
_MARGIN_SECONDS = 30.0  # of a time limit, for saving; a quarter of a short one
_TIME_IS_UP = Reason("the time limit", 0)
_REASONS = (*SIGNALS.values(), ORPHANED, _TIME_IS_UP)
_NONE = -1


class Control:
    """Asks all processes a few times a second, counted in updates so that all ask at the same one.

    Rank 0's clock decides how many updates that is, and when a time limit or an interval of saving is over.
    """

    def __init__(
        self,
        group: Any,
        interruption: Interruption,
        *,
        seconds_left: float | None,
        save_seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._group = group
        self._interruption = interruption
        self._clock = clock
        now = clock()
        self._stop_at = None if seconds_left is None else now + seconds_left - min(_MARGIN_SECONDS, seconds_left / 4)
        self._save_seconds = save_seconds
        self._last_save = now
        self._last_call = now
        self._updates, self._validation_batches = _Pace(now), _Pace(now)
        self.stop: Reason | None = None
        """Why all processes stop, once they have agreed."""

    def after_update(self) -> bool:
        """Collective: agree after an update, and tell whether an interval of saving is over."""
        self._note_pace()
        if not self._updates.is_due():
            return False
        save = self._save_seconds is not None and self._clock() - self._last_save >= self._save_seconds
        if not self._talk(self._updates, save):
            return False
        self._last_save = self._clock()
        return True

    def interrupted(self) -> bool:
        """Collective: tell between the batches of a validation whether to stop."""
        self._note_pace()
        if self._validation_batches.is_due():
            self._talk(self._validation_batches, False)
        return self.stop is not None

    def _note_pace(self) -> None:
        now = self._clock()
        self._interruption.loop_seconds, self._last_call = now - self._last_call, now

    def _talk(self, pace: "_Pace", save: bool) -> bool:
        """Collective: agree on stopping, and return whether rank 0 wants to save."""
        now = self._clock()
        reason = self._interruption.reason
        if reason is None and self._stop_at is not None and now >= self._stop_at:
            reason = _TIME_IS_UP
        said = [_REASONS.index(reason) if reason else _NONE, int(save), pace.next_talk(now)]
        by_rank = process_group.exchange(self._group, said)
        _, save_now, calls = by_rank[0]
        pace.begin(self._clock(), calls)
        heard = [number for number, _, _ in by_rank if number != _NONE]
        if heard and self.stop is None:
            self.stop = _REASONS[heard[0]]
            self._interruption.acknowledged()
        return bool(save_now)


class _Pace:
    """How often something happens, to do a thing after so many of them rather than after some time."""

    def __init__(self, now: float) -> None:
        self.begin(now, 1)

    def begin(self, now: float, calls: int) -> None:
        self._since = now
        self._calls = self._left = calls

    def is_due(self) -> bool:
        self._left -= 1
        return self._left <= 0

    def next_talk(self, now: float) -> int:
        """Return in how many calls about `_SECONDS_BETWEEN_TALKS` will be over."""
        per_second = self._calls / max(now - self._since, 1e-6)
        return max(1, min(2 * self._calls, int(per_second * _SECONDS_BETWEEN_TALKS)))
