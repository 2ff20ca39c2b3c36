"""Time is attributed to training, waiting and validation, by a fake clock."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from accel_train.training.timing import Timing


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr("accel_train.training.timing.time", SimpleNamespace(perf_counter=fake))
    return fake


def slow_batches(clock: Clock, *seconds: float) -> Iterator[int]:
    """Yield 0, 1, …, each after its number of seconds."""
    for number, wait in enumerate(seconds):
        clock.now += wait
        yield number


def epoch(timing: Timing, clock: Clock, waits: tuple[float, ...], work: float, images: int) -> float:
    timing.start()
    for _ in timing.waiting_for(slow_batches(clock, *waits)):
        clock.now += work
        timing.count(images)
    return timing.stop()


def test_throughput_excludes_first_update(clock: Clock) -> None:
    timing = Timing()
    timing.start()
    for work in (50.0, 2.0, 2.0):
        clock.now += work
        timing.count(64)
    assert timing.stop() == 54.0
    assert timing.images_per_second == 2 * 64 / 4


def test_throughput_excludes_profiled_updates(clock: Clock) -> None:
    timing = Timing()
    timing.start()
    for work in (5.0, 1.0):
        clock.now += work
        timing.count(10)
    with timing.excluded():
        clock.now += 30
        timing.count(10)
        timing.stop()
        clock.now += 500  # validation
        timing.start()
    clock.now += 1
    timing.count(10)
    assert timing.stop() == 1.0
    assert timing.images_per_second == 2 * 10 / 2
    assert (timing.seconds, timing.seconds_to_first_update) == (37.0, 5.0)


def test_throughput_includes_first_update_of_later_epochs(clock: Clock) -> None:
    timing = Timing()
    for _ in range(2):
        epoch(timing, clock, waits=(0.0, 0.0), work=1.0, images=10)
        clock.now += 100  # validation
    assert timing.seconds == 4.0
    assert timing.images_per_second == 30 / 3


def test_training_time_excludes_validation(clock: Clock) -> None:
    timing = Timing()
    assert [epoch(timing, clock, (1.0,), 2.0, 8) for _ in range(2)] == [3.0, 3.0]
    clock.now += 500
    assert timing.seconds == 6.0


def test_waiting_includes_loading_but_not_work(clock: Clock) -> None:
    timing = Timing()
    epoch(timing, clock, waits=(3.0, 0.0, 1.0), work=2.0, images=8)
    assert (timing.waited, timing.seconds) == (4.0, 10.0)
    assert timing.wait_share == 0.4


def test_batches_arrive_in_order(clock: Clock) -> None:
    assert list(Timing().waiting_for(slow_batches(clock, 1.0, 1.0, 1.0))) == [0, 1, 2]


def test_error_of_loader_is_raised() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        list(Timing().waiting_for(broken()))


@pytest.mark.parametrize("updates", [0, 1])
def test_throughput_of_fewer_than_two_updates_is_0(clock: Clock, updates: int) -> None:
    timing = Timing()
    epoch(timing, clock, waits=(1.0,) * updates, work=1.0, images=8)
    assert timing.images_per_second == 0.0


def test_wait_share_without_training_is_0() -> None:
    assert Timing().wait_share == 0.0


def test_share_is_the_blocked_fraction_since_construction(clock: Clock) -> None:
    timing = Timing()
    with timing.blocked_by("save"):
        clock.now += 3
    with timing.blocked_by("watch"):
        clock.now += 1
    clock.now += 4
    assert (timing.share("save"), timing.share("watch"), timing.share("nothing")) == (3 / 8, 1 / 8, 0)
