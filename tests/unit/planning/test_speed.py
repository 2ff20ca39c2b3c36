"""Time and price of a run, from the speed of one device."""

from dataclasses import replace

import pytest

from accel_train.config.lr_schedule import Schedule
from accel_train.config.plan import Plan
from accel_train.planning.estimate import Estimate
from accel_train.planning.speed import Speed, link_seconds, run_seconds, update_seconds
from accel_train.planning.traffic import Cluster, Traffic
from accel_train.planning.ways import Way

PLAN = Plan(4, 32, 256, 10, 100, 0, Schedule("constant", 0.1, 1000), (0.9, 0.999), 1e-8)
DDP = Estimate(Way("ddp", False), 2, traffic=Traffic(1e9, 1e9))
SPEED = Speed.of_training(64)


def test_an_update_takes_its_micro_batches() -> None:
    assert update_seconds(DDP, PLAN, SPEED, None, checkpointing=False) == 1.0


def test_checkpointing_takes_a_third_more() -> None:
    found = replace(DDP, way=Way("ddp", True))
    assert update_seconds(found, PLAN, SPEED, None, checkpointing=False) == pytest.approx(4 / 3)
    assert update_seconds(found, PLAN, SPEED, None, checkpointing=True) == 1.0


def test_a_slow_link_decides() -> None:
    assert link_seconds(DDP, 2) == 4
    assert update_seconds(DDP, PLAN, SPEED, 2, checkpointing=False) == 4
    assert update_seconds(DDP, PLAN, SPEED, 100, checkpointing=False) == 1


def test_a_pipeline_is_idle_in_part() -> None:
    found = replace(DDP, way=Way("pipeline", False, stages=2), accumulate=4)
    assert update_seconds(found, PLAN, SPEED, None, checkpointing=False) == (4 + 1) / 2 * 0.5


def test_a_run_starts_and_validates() -> None:
    speed = Speed(64, 192, start_seconds=5)
    assert run_seconds(1.0, PLAN, speed, 768, Cluster(4, 1)) == 5 + 1000 + 10
