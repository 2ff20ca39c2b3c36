"""All ranks agree to save or to stop at the same update, by a fake clock."""

from collections.abc import Callable

import pytest

from accel_train.distributed import process_group
from accel_train.run.stop_agreement import StopAgreement
from accel_train.system.signals import SIGNALS, Reason, StopSignals


class FakeSignals:
    """Stands in for StopSignals."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.is_acknowledged = False
        self.loop_seconds = 0.0

    def acknowledged(self) -> None:
        self.is_acknowledged = True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(
    signals: FakeSignals, clock: Clock, seconds_left: float | None = None, save_seconds: float | None = None
) -> StopAgreement:
    stop_signals: StopSignals = signals  # type: ignore[assignment]
    return StopAgreement(None, stop_signals, seconds_left=seconds_left, save_seconds=save_seconds, clock=clock)


def updates_until_stop(agreement: StopAgreement, clock: Clock, seconds: float, most: int = 10_000) -> int:
    for update in range(1, most):
        clock.now += seconds
        agreement.after_update()
        if agreement.stop:
            return update
    return most


@pytest.mark.parametrize("seconds", [0.001, 0.02, 3.0])
def test_signal_stops_within_half_a_second_or_one_update(seconds: float) -> None:
    signals, clock = FakeSignals(), Clock()
    agreement = make(signals, clock)
    assert updates_until_stop(agreement, clock, seconds, most=2000) == 2000
    signals.reason = next(iter(SIGNALS.values()))
    waited = updates_until_stop(agreement, clock, seconds) * seconds
    assert waited <= max(0.5, seconds)
    assert agreement.stop is signals.reason
    assert signals.is_acknowledged


def test_signal_stops_a_run_of_slow_updates_at_the_end_of_its_epoch() -> None:
    signals, clock = FakeSignals(), Clock()
    agreement = make(signals, clock)
    clock.now += 12
    agreement.after_update()
    signals.reason = next(iter(SIGNALS.values()))
    agreement.after_epoch()
    assert agreement.stop is signals.reason


def test_short_epochs_exchange_no_growing_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def exchange(group: None, numbers: list[int]) -> list[list[int]]:
        sent.extend(numbers)
        return [numbers]

    monkeypatch.setattr(process_group, "exchange", exchange)
    clock = Clock()
    agreement = make(FakeSignals(), clock)
    for _ in range(3000):
        clock.now += 0.001
        agreement.after_update()
        agreement.after_epoch()
    assert max(sent) < 2**12
    assert len(sent) < 3 * 300  # a few exchanges a second


def test_fast_validation_does_not_delay_a_stop_in_slow_updates() -> None:
    signals, clock = FakeSignals(), Clock()
    agreement = make(signals, clock)
    for _ in range(5000):
        clock.now += 0.0001
        assert not agreement.interrupted()
    signals.reason = next(iter(SIGNALS.values()))
    assert updates_until_stop(agreement, clock, 5.0) == 1


def test_time_limit_leaves_time_to_save() -> None:
    for limit, latest in ((100.0, 75.5), (3600.0, 3570.5)):
        clock = Clock()
        agreement = make(FakeSignals(), clock, seconds_left=limit)
        stopped = updates_until_stop(agreement, clock, 0.1, most=100_000) * 0.1
        assert latest - 1 <= stopped <= latest
        assert agreement.stop == Reason("the time limit", 0)


def test_interval_of_time_is_over_once_per_interval() -> None:
    clock = Clock()
    agreement = make(FakeSignals(), clock, save_seconds=10)
    due = 0
    for _ in range(1000):
        clock.now += 0.1
        due += agreement.after_update()
    assert due == 9  # each is noticed a little late


def test_signals_know_the_longest_time_that_the_loop_took() -> None:
    signals, clock = FakeSignals(), Clock()
    agreement = make(signals, clock)
    for seconds, call in ((7.0, agreement.after_update), (2.0, agreement.interrupted)):
        clock.now += seconds
        call()
        assert signals.loop_seconds == 7.0


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets what other ranks send, rank 0 among them."""

    def answer(*others: list[int]) -> None:
        monkeypatch.setattr(process_group, "exchange", lambda group, own: [*others, own])

    return answer


def test_stop_of_another_rank_is_obeyed(exchange: Callable[..., None]) -> None:
    signals, clock = FakeSignals(), Clock()
    agreement = make(signals, clock)
    exchange([-1, 0, 1], [0, 0, 1])
    assert updates_until_stop(agreement, clock, 1.0) == 1
    assert agreement.stop is next(iter(SIGNALS.values()))
    assert signals.is_acknowledged


def test_rank_0_decides_when_to_save_and_to_exchange_again(exchange: Callable[..., None]) -> None:
    clock = Clock()
    agreement = make(FakeSignals(), clock, save_seconds=0.5)
    found = []
    for update in range(1, 10):
        exchange([-1, int(update == 4), 3])  # rank 0: exchange every third update; save at the second exchange
        clock.now += 1.0
        found.append(agreement.after_update())
    assert found == [False, False, False, True, *[False] * 5]


def test_first_reason_is_kept(exchange: Callable[..., None]) -> None:
    signals, clock = FakeSignals(), Clock()
    agreement = make(signals, clock)
    first, second, *_ = SIGNALS.values()
    for reason in (first, second):
        signals.reason = reason
        for _ in range(9):
            clock.now += 1.0
            agreement.after_update()
        assert agreement.stop is first
