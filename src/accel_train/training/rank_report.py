"""Reports what each process has trained of an epoch, and a hash of its weights: equal on replicas."""

import resource
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributed import ProcessGroup

from accel_train.distributed import process_group
from accel_train.distributed.replica_check import fingerprint
from accel_train.distributed.strategies.base import Strategy
from accel_train.events import EpochByRank, RankEpoch
from accel_train.training.metrics import Sums, means


@dataclass(frozen=True)
class RankReport:
    """Makes the report of an epoch; once an epoch, it costs a fingerprint and an exchange of small values."""

    group: ProcessGroup | None
    strategy: Strategy
    model: nn.Module
    """Without wrappers."""
    device: str

    def __call__(
        self, epoch: int, update: int, sums: Sums, images_per_second: float, data_wait_share: float
    ) -> EpochByRank:
        """Collective: return the report of an epoch that this process has trained at a speed, with these sums."""
        own = self.strategy.from_last_stage(sums.since_load)
        tensors = [*self.model.parameters(), *self.model.buffers()]
        images = int(own[-1])
        record = RankEpoch(
            device=self.device,
            loss=means(own).loss if images else None,
            images=images,
            images_per_second=images_per_second,
            weights=f"{fingerprint(map(self.strategy.local, tensors)):016x}",
            sharded=not all(map(self.strategy.is_replicated, tensors)),
            data_wait_share=data_wait_share,
            memory_bytes=peak_memory(),
        )
        return EpochByRank(epoch, update, process_group.exchange_records(self.group, record))


def peak_memory() -> int:
    """Return the most memory that this process has used, in bytes: on its GPU that of tensors, else all of it."""
    return torch.cuda.max_memory_allocated() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
