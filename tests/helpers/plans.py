"""Small plans for the tests of the training loop."""

from dataclasses import replace
from typing import Any

from accel_train.config.lr_schedule import Schedule
from accel_train.config.plan import Plan

_TWO_UPDATES = Plan(
    processes=1,
    batch_size=2,
    global_batch=2,
    epochs=2,
    updates_per_epoch=2,
    images_dropped=0,
    learning_rate=Schedule(rule="linear", peak=0.5, total_updates=4, warmup_updates=0),
    betas=(0.9, 0.999),
    eps=1e-8,
)


def small_plan(*, processes: int = 1, accumulate: int = 1, batch_size: int = 2, **changes: Any) -> Plan:
    """Return a plan of two epochs with two updates each, with a learning rate that falls linearly from 0.5."""
    sizes = {"processes": processes, "batch_size": batch_size, "global_batch": processes * accumulate * batch_size}
    return replace(_TWO_UPDATES, **sizes | changes)
