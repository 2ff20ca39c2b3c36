"""What a run takes of each device under each strategy, with and without activation checkpointing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.plan import Plan, divide
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.planning.closed_form import closed_form_memory
from accel_train.planning.memory import DeviceMemory
from accel_train.planning.replica import whole_model_memory
from accel_train.planning.stages import find_cut, stage_memory
from accel_train.planning.subject import Subject
from accel_train.planning.traffic import (
    NONE,
    Cluster,
    SentSizes,
    Traffic,
    ddp_traffic,
    pipeline_traffic,
    sharded_traffic,
)
from accel_train.planning.update import Sharing
from accel_train.planning.ways import Way, ways
from accel_train.training.optimizers import hidden_matrices


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
        UserError: the run could not start in any way, or not in the one that was asked for.
    """
    config, sent = subject.config, sent_sizes(subject)
    for way in ways(config, cluster):
        try:
            way.check(config, cluster)
            found = _estimate(replace(subject, checkpointing=way.checkpointing), cluster, way)
            yield found if way.strategy == "pipeline" else replace(found, traffic=_traffic(found, sent, cluster))
        except UserError as error:
            if way.strategy == config.strategy and not way.checkpointing:
                raise
            yield Estimate(way, 1, problem=error.message)


def sent_sizes(subject: Subject) -> SentSizes:
    """Return the bytes of what processes send that compute all layers.

    Raises:
        UserError: the model cannot be built.
    """
    module = subject.build_without_data(torch.channels_last)[0].module
    trained = {name: p.nbytes for name, p in module.named_parameters() if p.requires_grad}
    hidden = hidden_matrices(module) if OPTIMIZERS[subject.config.optimizer].hidden_apart else ()
    return SentSizes(
        weights=sum(p.nbytes for p in module.parameters()),
        gradients=sum(trained.values()),
        matrices=sum(size for name, size in trained.items() if name in hidden),
    )


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


def _traffic(found: Estimate, sent: SentSizes, cluster: Cluster) -> Traffic:
    """Return what is sent if all processes compute all layers."""
    shards = found.way.shards
    if shards == 1:
        return ddp_traffic(sent.gradients, cluster)
    return sharded_traffic(sent, cluster, shards=shards, accumulate=found.accumulate)


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
