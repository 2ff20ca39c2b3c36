"""What devices send in an update, by strategy: bytes of each device, and bytes over the slowest link.

Rings are assumed, as NCCL and Gloo use them: of an all-reduce over N each device sends 2 (N - 1) / N of the tensor, of
an all-gather or a reduce-scatter (N - 1) / N (Patarasuk and Yuan 2009).
"""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Cluster:
    """The machines of a run."""

    gpus: int
    """Devices of each."""
    nodes: int

    @property
    def devices(self) -> int:
        return self.gpus * self.nodes


@dataclass(frozen=True)
class Traffic:
    """What is sent in an update, bytes."""

    by_device: float
    """By the device that sends the most."""
    over_link: float
    """Over the network of a machine, of several machines; else by a device."""

    @classmethod
    def of_ring(cls, size: float) -> Self:
        """One ring through all devices: it passes the network of each machine once."""
        return cls(size, size)


NONE = Traffic(0, 0)


@dataclass(frozen=True)
class SentSizes:
    """Bytes of what processes send that compute all layers."""

    weights: int
    gradients: int
    matrices: int = 0
    """Gradients that the optimizer needs unsharded, as Muon does."""


def shares(count: int) -> float:
    """Return the part of a tensor that each of `count` devices in a ring sends in an all-gather."""
    return (count - 1) / count


def ddp_traffic(gradients: int, cluster: Cluster) -> Traffic:
    """All-reduce of the gradients."""
    return Traffic.of_ring(2 * shares(cluster.devices) * gradients)


def sharded_traffic(sent: SentSizes, cluster: Cluster, *, shards: int, accumulate: int) -> Traffic:
    """All-gather of the weights for each forward and backward pass, reduce-scatter of the gradients at the end.

    The optimizer may gather matrices, once per update.
    Replicas of `shards` devices, if there are several, then average the gradients of their shards.
    """
    gathered = shares(shards) * (2 * accumulate * sent.weights + sent.gradients + sent.matrices)
    replicas = cluster.devices // shards
    averaged = 2 * shares(replicas) * sent.gradients / shards
    inside = shards <= cluster.gpus and cluster.gpus % shards == 0
    if cluster.nodes == 1:
        return Traffic.of_ring(gathered + averaged)
    # The rings of all shards of a machine pass its network, but those of a group of the machine itself do not.
    return Traffic(gathered + averaged, averaged * min(shards, cluster.gpus) + (0 if inside else gathered))


def pipeline_traffic(
    weights_of_stages: list[int], passed_on: list[int], cluster: Cluster, *, accumulate: int
) -> Traffic:
    """Activations and their gradients between stages; then replicas average the gradients of each stage."""
    stages = len(weights_of_stages)
    ring = 2 * shares(cluster.devices // stages)
    sent = [0, *passed_on, 0]
    by_stage = [
        accumulate * (sent[stage] + sent[stage + 1]) + ring * weights_of_stages[stage] for stage in range(stages)
    ]
    if cluster.nodes == 1:
        return Traffic.of_ring(max(by_stage))
    inside = stages <= cluster.gpus and cluster.gpus % stages == 0
    averaged = ring * sum(weights_of_stages) / max(1, stages // cluster.gpus)
    return Traffic(max(by_stage), averaged + (0 if inside else accumulate * max(passed_on)))
