"""When the processes of a run agree to save or to stop, by a clock of the test's own."""

import pytest

from accel_train.run.stop_agreement import Control
from accel_train.system.signals import SIGNALS, Interruption, Reason


class Told:
    """Stands in for an Interruption, which would take the signals of the test runner."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.agreed = False
        self.loop_seconds = 0.0

    def acknowledged(self) -> None:
        self.agreed = True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(told: Told, clock: Clock, seconds_left: float | None = None, save_seconds: float | None = None) -> Control:
    interruption: Interruption = told  # type: ignore[assignment]
    return Control(None, interruption, seconds_left=seconds_left, save_seconds=save_seconds, clock=clock)


def updates_until_stop(control: Control, clock: Clock, seconds: float, most: int = 10_000) -> int:
    for update in range(1, most):
        clock.now += seconds
        control.after_update()
        if control.stop:
            return update
    return most


@pytest.mark.parametrize("seconds", [0.001, 0.02, 3.0])
def test_a_signal_stops_within_half_a_second_or_one_update(seconds: float) -> None:
    told, clock = Told(), Clock()
    control = make(told, clock)
    assert updates_until_stop(control, clock, seconds, most=2000) == 2000
    told.reason = next(iter(SIGNALS.values()))
    waited = updates_until_stop(control, clock, seconds) * seconds
    assert waited <= max(0.5, seconds)
    assert control.stop is told.reason
    assert told.agreed


def test_updates_that_become_slow_after_fast_validation_do_not_put_off_a_stop() -> None:
    told, clock = Told(), Clock()
    control = make(told, clock)
    for _ in range(5000):
        clock.now += 0.0001
        assert not control.interrupted()
    told.reason = next(iter(SIGNALS.values()))
    assert updates_until_stop(control, clock, 5.0) == 1


def test_a_time_limit_leaves_a_quarter_or_half_a_minute_to_save() -> None:
    for limit, latest in ((100.0, 75.5), (3600.0, 3570.5)):
        clock = Clock()
        control = make(Told(), clock, seconds_left=limit)
        stopped = updates_until_stop(control, clock, 0.1, most=100_000) * 0.1
        assert latest - 1 <= stopped <= latest
        assert control.stop == Reason("the time limit", 0)


def test_an_interval_of_time_is_over_once_for_each_interval() -> None:
    clock = Clock()
    control = make(Told(), clock, save_seconds=10)
    due = 0
    for _ in range(1000):
        clock.now += 0.1
        due += control.after_update()
    assert due == 9  # each is noticed a little late


def test_an_interruption_hears_how_long_updates_take() -> None:
    told, clock = Told(), Clock()
    control = make(told, clock)
    for seconds, passed in ((7.0, control.after_update), (2.0, control.interrupted)):
        clock.now += seconds
        passed()
        assert told.loop_seconds == seconds
