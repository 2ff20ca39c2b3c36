"""Images per second between updates."""

import math

from accel_train.events import UpdateDone
from accel_train.loggers.throughput import Throughput


def test_excludes_first_update_and_time_between_epochs() -> None:
    now = 0.0
    throughput = Throughput(64, clock=lambda: now)
    assert math.isnan(throughput.images_per_second())
    throughput.count(UpdateDone(1, 1))
    assert math.isnan(throughput.images_per_second())
    now = 2.0
    throughput.count(UpdateDone(1, 2))
    assert throughput.images_per_second() == 32
    now = 100.0  # validation
    throughput.count(UpdateDone(2, 3))
    assert math.isnan(throughput.images_per_second())
    now = 101.0
    throughput.count(UpdateDone(2, 4))
    assert throughput.images_per_second() == 64
