"""Runs to plan in tests."""

from typing import Any

from accel_train.config.options import TrainConfig
from accel_train.config.plan import make_plan
from accel_train.config.plan_options import PlanConfig
from accel_train.config.resolve import resolve
from accel_train.planning.data import planned_data
from accel_train.planning.subject import Subject


def subject(processes: int = 1, *, stages: int = 1, checkpointing: bool = False, **options: Any) -> Subject:
    """Return a run that is planned for this number of processes, by default of mlp on synthetic images."""
    asked = TrainConfig(**{"data": "synthetic:4096,1,8,8,10", "model": "mlp", "batch_size": 16, **options})
    data = planned_data(asked, PlanConfig(), {})
    config, _ = resolve(asked, {}, data.kind, len(data.train), asked.precision or "fp32")
    return Subject(config, make_plan(config, processes, len(data.train), stages=stages), data, checkpointing)
