"""Plans a run: its updates, and what it takes under each strategy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.config.plan_options import PlanConfig
from accel_train.config.resolve import resolve
from accel_train.errors import UserError
from accel_train.planning.data import planned_data
from accel_train.planning.estimate import Estimate, estimates
from accel_train.planning.subject import Subject
from accel_train.planning.traffic import Cluster
from accel_train.planning.ways import stages_asked
from accel_train.run.resume_point import UNNAMED, fill_from_run
from accel_train.run.weights import check_weights

_USUAL_SIZE = 224
"""Image size of most published weights, which are not downloaded to plan with them."""


@dataclass(frozen=True)
class RunPlan:
    """A planned run."""

    subject: Subject
    origins: dict[str, str]
    """Of the values of the config."""
    given: TrainConfig
    """The options asked for, from which the command is made."""
    cluster: Cluster
    parameters: int
    input_shape: tuple[int, int, int]
    """Channels, height and width of the model's input."""
    notes: tuple[str, ...]

    @property
    def config(self) -> ResolvedConfig:
        return self.subject.config

    @property
    def plan(self) -> Plan:
        return self.subject.plan

    def estimates(self) -> Iterator[Estimate]:
        """Yield what each way to train takes."""
        return estimates(self.subject, self.cluster)


def plan_run(asked: PlanConfig, origins: dict[str, str]) -> RunPlan:
    """Resolve a config as train does, without its data, and plan the updates.

    Raises:
        UserError: the run could not start.
    """
    import torch

    cluster = _cluster(asked)
    own = {name: origin for name, origin in origins.items() if name in TrainConfig.model_fields}
    values = {name: getattr(asked, name) for name in TrainConfig.model_fields}
    train, own = fill_from_run(TrainConfig.model_construct(**values), own)
    data = planned_data(train, asked, own)
    replicas = cluster.devices // ((train.strategy == "pipeline" and train.pipeline_stages) or 1)
    images, precision = len(data.train), train.precision or "fp32"
    config, all_origins = resolve(train, own, data.kind, images, precision, replicas=replicas)
    notes: tuple[str, ...] = ()
    if config.starts_from_weights and config.image_size is None:
        config = config.model_copy(update={"image_size": _USUAL_SIZE})
        notes = (f"images of {_USUAL_SIZE} pixels are assumed, as for most weights: else give --image-size",)
    if config.starts_from_weights and config.resume in UNNAMED:  # a run to resume has its own
        check_weights(config.model, config.weights)
    plan = make_plan(config, cluster.devices, len(data.train), stages=stages_asked(config, cluster))
    subject = Subject(config, plan, data)
    built, _ = subject.build_without_data(torch.channels_last)
    shape = (built.channels, built.image_size, built.image_size)
    return RunPlan(subject, all_origins, train, cluster, built.parameters, shape, (*notes, *built.notes))


def _cluster(asked: PlanConfig) -> Cluster:
    """Return the machines: ``--processes`` are those of all machines, as under a launcher.

    Raises:
        UserError: the numbers contradict each other.
    """
    gpus, nodes, processes = asked.gpus, asked.nodes, asked.processes
    if processes and gpus and processes != gpus * nodes:
        raise UserError(f"--processes {processes} is not --gpus {gpus} × --nodes {nodes}", "leave --processes out")
    if processes and processes % nodes:
        raise UserError(f"--processes {processes} cannot be divided among --nodes {nodes}", "give --gpus of a machine")
    return Cluster(gpus or (processes or nodes) // nodes, nodes)


def as_record(found: Estimate, batch_size: int) -> dict[str, Any]:
    """Return an estimate as a JSON object, bytes."""
    return {
        "strategy": found.way.strategy,
        "activation_checkpointing": found.way.checkpointing,
        "shard_size": found.way.shards,
        "pipeline_stages": found.way.stages,
        "pipeline_split": found.split,
        "accumulate": found.accumulate,
        "problem": found.problem,
        "bytes_sent_per_update": found.traffic.by_device,
        "bytes_over_link_per_update": found.traffic.over_link,
        "devices": [
            {
                "weights": device.weights,
                "gradients": device.gradients,
                "optimizer": device.optimizer,
                "ema": device.ema,
                "activations": device.activations.at(batch_size),
                "exact_tree": device.tree,
                "save_copy": device.saved,
                "peak": device.peak.at(batch_size),
            }
            for device in found.devices
        ],
    }
