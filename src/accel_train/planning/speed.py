"""The time and the price of a run, from the speed of one device."""

from dataclasses import dataclass

from accel_train.config.plan import Plan
from accel_train.planning.estimate import Estimate
from accel_train.planning.traffic import Cluster

_PASSES = 3
"""Time of a forward and a backward pass, in forward passes."""
_RECOMPUTED = (_PASSES + 1) / _PASSES
"""Factor of the time of an update with activation checkpointing (Chen et al. 2016, §1)."""


@dataclass(frozen=True)
class Speed:
    """Images per second of one device."""

    training: float
    validation: float
    start_seconds: float = 0.0
    """From the start of the command to the first update."""

    @classmethod
    def of_training(cls, images_per_second: float) -> "Speed":
        return cls(images_per_second, _PASSES * images_per_second)


def link_seconds(estimate: Estimate, link_gbps: float) -> float:
    """Return the seconds that an update's bytes take over the slowest link."""
    return 8 * estimate.traffic.over_link / (1e9 * link_gbps)


def update_seconds(
    estimate: Estimate, plan: Plan, speed: Speed, link_gbps: float | None, *, checkpointing: bool
) -> float:
    """Return the seconds of an update; communication overlaps computation. `checkpointing` is that of the speed."""
    stages = estimate.way.stages
    passes = (estimate.accumulate + stages - 1) / stages
    factor = _RECOMPUTED ** (estimate.way.checkpointing - checkpointing)
    computing = factor * passes * plan.batch_size / speed.training
    return max(computing, link_seconds(estimate, link_gbps) if link_gbps else 0.0)


def run_seconds(seconds_per_update: float, plan: Plan, speed: Speed, val_images: int, cluster: Cluster) -> float:
    """Return the seconds of the run, with its start and the validation after each epoch."""
    validation = plan.epochs * val_images / (speed.validation * cluster.devices)
    return speed.start_seconds + plan.total_updates * seconds_per_update + validation
