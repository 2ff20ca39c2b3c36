"""The meter attributes time to training, waiting and validation as a clock of the test's own says."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from accel_train.training.timing import Meter


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("accel_train.training.timing.time", SimpleNamespace(perf_counter=made))
    return made


def slow_batches(clock: Clock, *seconds: float) -> Iterator[int]:
    """Yield 0, 1, …, each after so many seconds."""
    for number, wait in enumerate(seconds):
        clock.now += wait
        yield number


def epoch(meter: Meter, clock: Clock, waits: tuple[float, ...], work: float, images: int) -> float:
    meter.start()
    for _ in meter.waiting_for(slow_batches(clock, *waits)):
        clock.now += work
        meter.count(images)
    return meter.stop()


def test_the_first_update_is_left_out_of_the_speed(clock: Clock) -> None:
    meter = Meter()
    meter.start()
    for work in (50.0, 2.0, 2.0):
        clock.now += work
        meter.count(64)
    assert meter.stop() == 54.0
    assert meter.images_per_second == 2 * 64 / 4


def test_a_span_that_is_left_out_does_not_slow_the_run(clock: Clock) -> None:
    meter = Meter()
    meter.start()
    for work in (5.0, 1.0):
        clock.now += work
        meter.count(10)
    with meter.leaving_out():
        clock.now += 30
        meter.count(10)
        meter.stop()
        clock.now += 500  # validation
        meter.start()
    clock.now += 1
    meter.count(10)
    assert meter.stop() == 1.0
    assert meter.images_per_second == 2 * 10 / 2
    assert (meter.seconds, meter.seconds_to_first_update) == (37.0, 5.0)


def test_only_the_runs_first_update_is_left_out(clock: Clock) -> None:
    meter = Meter()
    for _ in range(2):
        epoch(meter, clock, waits=(0.0, 0.0), work=1.0, images=10)
        clock.now += 100  # validation
    assert meter.seconds == 4.0
    assert meter.images_per_second == 30 / 3


def test_validation_is_no_training_time(clock: Clock) -> None:
    meter = Meter()
    assert [epoch(meter, clock, (1.0,), 2.0, 8) for _ in range(2)] == [3.0, 3.0]
    clock.now += 500
    assert meter.seconds == 6.0


def test_waiting_is_what_the_batches_take_and_not_what_is_done_with_them(clock: Clock) -> None:
    meter = Meter()
    epoch(meter, clock, waits=(3.0, 0.0, 1.0), work=2.0, images=8)
    assert (meter.waited, meter.seconds) == (4.0, 10.0)
    assert meter.wait_share == 0.4


def test_all_batches_come_through_in_order(clock: Clock) -> None:
    assert list(Meter().waiting_for(slow_batches(clock, 1.0, 1.0, 1.0))) == [0, 1, 2]


def test_an_error_in_a_batch_comes_through() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        list(Meter().waiting_for(broken()))


@pytest.mark.parametrize("updates", [0, 1])
def test_too_few_updates_have_no_speed(clock: Clock, updates: int) -> None:
    meter = Meter()
    epoch(meter, clock, waits=(1.0,) * updates, work=1.0, images=8)
    assert meter.images_per_second == 0.0


def test_nothing_done_is_no_waiting() -> None:
    assert Meter().wait_share == 0.0
