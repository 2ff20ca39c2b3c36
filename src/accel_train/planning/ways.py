"""The ways to share the work of a run among devices, and which of them are possible."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from accel_train.config.options import ResolvedConfig
from accel_train.config.strategies import check_processes
from accel_train.distributed.strategies import load_strategy
from accel_train.errors import UserError
from accel_train.planning.traffic import Cluster
from accel_train.run.build import refuse_unsupported

_STAGES = 2
"""Of a pipeline, unless given."""


@dataclass(frozen=True)
class Way:
    """A way to share the work."""

    strategy: str
    """Value of ``--strategy``."""
    checkpointing: bool = False
    shards: int = 1
    stages: int = 1

    @property
    def name(self) -> str:
        size = f" {self.shards}" * (self.strategy == "hsdp") + f" {self.stages}" * (self.strategy == "pipeline")
        return f"{self.strategy}{size}{' + checkpointing' * self.checkpointing}"

    @property
    def options(self) -> dict[str, Any]:
        """The options of the strategy."""
        sizes = {"hsdp": {"shard_size": self.shards}, "pipeline": {"pipeline_stages": self.stages}}
        return sizes.get(self.strategy, {})

    def check(self, config: ResolvedConfig, cluster: Cluster) -> None:
        """Check that a run can be started so, as it does itself.

        Raises:
            UserError: it cannot.
        """
        check_processes(self.strategy, self.options, cluster.devices)
        refuse_unsupported(config, load_strategy(self.strategy, self.options))

    def has_room(self, cluster: Cluster) -> bool:
        """Return whether its sizes are possible with this number of devices."""
        with suppress(UserError):
            check_processes(self.strategy, self.options, cluster.devices)
            return True
        return False


def ways(config: ResolvedConfig, cluster: Cluster) -> Iterator[Way]:
    """Yield the ways to train on these devices, the simplest and fastest first.

    Those that were asked for are among them, possible or not.
    """
    given = {config.strategy}
    given |= {"hsdp"} if config.shard_size else set()
    given |= {"pipeline"} if config.pipeline_stages else set()
    for way in _plain_ways(config, cluster):
        if way.strategy in given or way.has_room(cluster):
            yield way
            yield replace(way, checkpointing=True)


def stages_asked(config: ResolvedConfig, cluster: Cluster) -> int:
    """Return the stages of a replica under ``--strategy``.

    Raises:
        UserError: it cannot be planned, or not for these devices.
    """
    if config.strategy == "dp":
        raise UserError("--strategy dp is not planned: it is slower than DDP", "use --strategy ddp, or leave it out")
    for way in _plain_ways(config, cluster):
        if way.strategy == config.strategy:
            way.check(config, cluster)
            return way.stages
    return 1


def _plain_ways(config: ResolvedConfig, cluster: Cluster) -> tuple[Way, ...]:
    """Return the ways without activation checkpointing."""
    return (
        Way("ddp"),
        Way("fsdp2", shards=cluster.devices),
        Way("hsdp", shards=config.shard_size or _shard_size(cluster)),
        Way("pipeline", stages=config.pipeline_stages or _STAGES),
    )


def _shard_size(cluster: Cluster) -> int:
    """Return the devices of a replica under HSDP: those of a machine; of one machine, as many as leave two replicas."""
    if cluster.nodes > 1 and cluster.gpus > 1:
        return cluster.gpus
    return max((n for n in range(2, cluster.devices) if cluster.devices % n == 0), default=2)
