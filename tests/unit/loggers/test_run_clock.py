"""Elapsed time and time left: of updates, of validation, and of resumed runs."""

from helpers.run_events import epoch_end, started

from accel_train.events import PlanRecord, Resumed, UpdateDone
from accel_train.loggers.run_clock import RunClock


class Run:
    """A simulated run: its updates, validations and breaks take the given seconds."""

    def __init__(self, epochs: int = 4, updates: int = 10) -> None:
        self.plan: PlanRecord = started(epochs=epochs, updates_per_epoch=updates, total_updates=epochs * updates).plan
        self.now = 1000.0
        self.clock = RunClock(self.plan, lambda: self.now)

    def update(self, number: int, seconds: float) -> None:
        self.now += seconds
        self.clock.count(UpdateDone((number - 1) // self.plan.updates_per_epoch + 1, number))

    def epoch(self, number: int, update: float, validation: float, saving: float = 0.0) -> None:
        first = (number - 1) * self.plan.updates_per_epoch + 1
        for each in range(first, first + self.plan.updates_per_epoch):
            self.update(each, update)
        self.now += validation
        self.clock.end_epoch(epoch_end(number))
        self.now += saving


def test_nothing_is_estimated_before_the_first_updates() -> None:
    run = Run()
    assert run.clock.left() is None
    for number, seconds in ((1, 60.0), (2, 1.0), (3, 1.0)):  # the first includes one-time costs
        run.update(number, seconds)
        assert run.clock.left() is None
    assert run.clock.text() == "1 min 2 s"
    run.update(4, 1.0)
    assert run.clock.left() == 36.0
    assert run.clock.text() == "1 min 3 s, 36 s left"


def test_validation_and_saving_are_part_of_the_time_left_once_known() -> None:
    run = Run()
    run.epoch(1, update=1.0, validation=5.0, saving=2.0)
    assert run.clock.left() == 30 + 3 * 5.0
    run.update(11, 1.0)
    assert run.clock.left() == 29 + 3 * 7.0
    assert run.clock.elapsed() == 18.0


def test_estimate_follows_a_machine_that_becomes_slower() -> None:
    run = Run(epochs=10)
    run.epoch(1, update=1.0, validation=0.0)
    for number in (2, 3, 4):
        run.epoch(number, update=3.0, validation=6.0)
    assert run.clock.left() == 6 * 10 * 3.0 + 6 * 6.0


def test_estimate_of_epochs_of_one_update() -> None:
    run = Run(epochs=5, updates=1)
    run.epoch(1, update=30.0, validation=2.0)
    run.epoch(2, update=3.0, validation=2.0)
    run.update(3, 3.0)
    assert run.clock.left() == 3 * 5.0


def test_resumed_run_continues_its_time_and_estimates_the_rest() -> None:
    run = Run(epochs=4)
    run.clock.resume(Resumed(epoch=3, update=25, seconds=90.0))
    assert run.clock.text() == "1 min 30 s"
    run.update(26, 40.0)
    for number in (27, 28, 29):
        run.update(number, 2.0)
    assert run.clock.left() == 11 * 2.0
    assert run.clock.elapsed() == 90.0 + 46.0


def test_nothing_is_left_after_the_last_epoch() -> None:
    run = Run(epochs=2)
    run.epoch(1, update=1.0, validation=1.0)
    run.epoch(2, update=1.0, validation=1.0)
    assert run.clock.left() is None
    assert (run.clock.text(), run.clock.left_text()) == ("22 s", "")
