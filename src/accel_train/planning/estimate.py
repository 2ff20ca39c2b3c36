"""What a run takes of each device under each strategy, with and without activation checkpointing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from accel_train.config.plan import Plan, divide
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.planning.closed_form import closed_form_memory
from accel_train.planning.memory import DeviceMemory
from accel_train.planning.replica import whole_model_memory
from accel_train.planning.stages import find_cut, stage_memory
from accel_train.planning.subject import Subject
from accel_train.planning.traffic import NONE, Cluster, Traffic, ddp_traffic, pipeline_traffic, sharded_traffic
from accel_train.planning.update import Sharing

_STAGES = 2
"""Of a pipeline, unless given."""


@dataclass(frozen=True)
class Way:
    """A way to share the work."""

    strategy: str
    """Value of ``--strategy``."""
    checkpointing: bool
    shards: int = 1
    stages: int = 1

    @property
    def name(self) -> str:
        size = f" {self.shards}" * (self.strategy == "hsdp") + f" {self.stages}" * (self.stages > 1)
        return f"{self.strategy}{size}{' + checkpointing' * self.checkpointing}"


@dataclass(frozen=True)
class Estimate:
    """What a way takes."""

    way: Way
    accumulate: int
    """Micro-batches of a replica in an update."""
    devices: tuple[DeviceMemory, ...] = ()
    """A device of each stage; one, if all are alike; none, if the way is impossible."""
    traffic: Traffic = NONE
    split: tuple[str, ...] = ()
    """Where a pipeline is cut."""
    problem: str = ""
    """Why the way is impossible, or how it was estimated."""

    def peak(self, batch_size: int) -> int:
        """Return the peak of the device that takes the most, bytes."""
        return max(device.peak.at(batch_size) for device in self.devices)

    def largest_batch(self, limit: float) -> int:
        """Return the largest batch size with which no device takes more than `limit` bytes."""
        return min(device.peak.largest_batch(limit) for device in self.devices)

    def fits(self, batch_size: int, limit: float) -> bool:
        return bool(self.devices) and self.peak(batch_size) <= limit


def estimates(subject: Subject, cluster: Cluster) -> Iterator[Estimate]:
    """Yield what each way to train takes.

    Raises:
        UserError: the run could not start in any way.
    """
    module = subject.build_without_data(torch.channels_last)[0].module
    weights = sum(p.nbytes for p in module.parameters())
    gradients = sum(p.nbytes for p in module.parameters() if p.requires_grad)
    for way in ways(subject, cluster):
        try:
            found = _estimate(replace(subject, checkpointing=way.checkpointing), cluster, way)
            yield found if way.stages > 1 else replace(found, traffic=_traffic(found, weights, gradients, cluster))
        except UserError as error:
            yield Estimate(way, 1, problem=error.message)


def ways(subject: Subject, cluster: Cluster) -> Iterator[Way]:
    """Yield the ways to train on these devices, the simplest and fastest first."""
    config, devices = subject.config, cluster.devices
    shards = config.shard_size or _shard_size(cluster)
    stages = config.pipeline_stages or _STAGES
    found = [("ddp", 1, 1)]
    found += [("fsdp2", devices, 1)] * (devices > 1)
    found += [("hsdp", shards, 1)] * (1 < shards < devices and devices % shards == 0)
    found += [("pipeline", 1, stages)] * (stages > 1 and devices % stages == 0)
    for strategy, shards, stages in found:
        for checkpointing in (False, True):
            yield Way(strategy, checkpointing, shards, stages)


def _shard_size(cluster: Cluster) -> int:
    """Return the devices of a replica under HSDP: those of a machine; half of them if there is one machine."""
    return cluster.gpus if cluster.nodes > 1 else cluster.gpus // 2


def sharing(plan: Plan, cluster: Cluster, way: Way) -> Sharing:
    """Return how processes share the micro-batches of an update.

    Raises:
        UserError: there are fewer micro-batches than replicas.
    """
    replicas = cluster.devices // way.stages
    if plan.micro_batches < replicas:
        raise UserError(
            f"{replicas} replicas cannot share {quantity(plan.micro_batches, 'micro-batch', 'micro-batches')}",
            "use a smaller --batch-size",
        )
    return Sharing(replicas, way.shards, divide(plan.micro_batches, replicas))


def _estimate(subject: Subject, cluster: Cluster, way: Way) -> Estimate:
    shared = sharing(subject.plan, cluster, way)
    if way.stages > 1:
        return _of_pipeline(subject, cluster, way, shared)
    note = ""
    try:
        memory = whole_model_memory(subject, shared)
    except UserError:
        raise
    except Exception as error:
        memory = closed_form_memory(subject, shared)
        note = f"by a formula, because torch cannot run the model without data: {_first_line(error)}"
    return Estimate(way, shared.accumulate, (memory,), problem=note)


def _traffic(found: Estimate, weights: int, gradients: int, cluster: Cluster) -> Traffic:
    """Return what is sent if all processes compute all layers."""
    shards = found.way.shards
    if shards == 1:
        return ddp_traffic(gradients, cluster)
    return sharded_traffic(weights, gradients, cluster, shards=shards, accumulate=found.accumulate)


def _of_pipeline(subject: Subject, cluster: Cluster, way: Way, shared: Sharing) -> Estimate:
    config = subject.config
    schedule = config.pipeline_schedule or "1f1b"
    try:
        cut = find_cut(subject, way.stages, config.pipeline_split or (), shared.accumulate)
        devices = stage_memory(subject, shared, cut, schedule)
    except UserError:
        raise
    except Exception as error:
        return Estimate(
            way, shared.accumulate, problem=f"unknown: torch cannot run the model without data: {_first_line(error)}"
        )
    traffic = pipeline_traffic(cut.weights, cut.passed_on, cluster, accumulate=shared.accumulate)
    return Estimate(way, shared.accumulate, tuple(devices), traffic, cut.names)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
