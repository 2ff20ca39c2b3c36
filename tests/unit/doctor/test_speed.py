"""The speed of a process is measured by its CPU time."""

from dataclasses import asdict

import torch

from accel_train.doctor.speed import Speed, measure_speed


def test_speed_is_measured() -> None:
    speed = measure_speed(torch.device("cpu"))
    assert speed.gflops > 0
    assert 0 <= speed.waited < 1
    assert Speed.read(asdict(speed)) == speed
