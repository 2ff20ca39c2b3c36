"""The processes of a pipeline as replicas × stages, and what they exchange besides activations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from accel_train.distributed import process_group


class Stored(NamedTuple):
    """A tensor of the whole model."""

    stage: int
    """The stage that stores it."""
    shape: torch.Size
    dtype: torch.dtype


class Grid:
    """The place of this process: stage `stage` of replica `replica`."""

    def __init__(self, rank: int, processes: int, stages: int, device: torch.device, timeout: int) -> None:
        """Collective: form a group of the stages of each replica, and one of the replicas of each stage."""
        self.replica, self.stage = divmod(rank, stages)
        self.stages = stages
        self.device = device
        ranks = torch.arange(processes).view(-1, stages)
        self.of_replica = _own_group(ranks.tolist(), timeout)
        self.of_stage = _own_group(ranks.T.tolist(), timeout)

    @property
    def is_last(self) -> bool:
        return self.stage == self.stages - 1

    def average_over_replicas(self, tensors: Sequence[Tensor]) -> None:
        """Collective: average tensors of one dtype over the replicas of this stage, in place."""
        if self.of_stage.size() == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        torch.distributed.all_reduce(flat, group=self.of_stage)
        parts = torch.split(flat.div_(self.of_stage.size()), [tensor.numel() for tensor in tensors])
        torch._foreach_copy_(list(tensors), [part.view_as(t) for part, t in zip(parts, tensors, strict=True)])

    def norm(self, own: Mapping[int, Tensor | None], total: int) -> Tensor:
        """Collective: return the norm of the tensors of all stages, bit-identical to that of one process.

        `own` are those of this stage by their places among the `total` of the model, whose modules may run in another
        order than they are defined in.
        """
        there = {place: tensor for place, tensor in own.items() if tensor is not None}
        dtype = next((tensor.dtype for tensor in there.values()), torch.float32)
        norms = torch.zeros(total, dtype=dtype, device=self.device)
        if there:
            norms[list(there)] = torch.stack(torch._foreach_norm(list(there.values())))
        torch.distributed.all_reduce(norms, group=self.of_replica)  # adds zeros, which is exact
        norm: Tensor = torch.linalg.vector_norm(norms)
        return norm

    def from_last_stage(self, tensor: Tensor) -> Tensor:
        """Collective: return the tensor that the last stage gives."""
        tensor = tensor.clone()
        torch.distributed.broadcast(tensor, group=self.of_replica, group_src=self.stages - 1)
        return tensor

    def gather(self, own: Mapping[str, Tensor], all_stored: Mapping[str, Stored]) -> Iterator[tuple[str, Tensor]]:
        """Collective: yield all tensors of the model in order on rank 0, this stage's on others."""
        for name, stored in all_stored.items():
            if stored.stage == self.stage:
                if self.stage and not self.replica:
                    torch.distributed.send(own[name].contiguous(), group=self.of_replica, group_dst=0)
                yield name, own[name]
            elif not self.stage and not self.replica:
                tensor = torch.empty(stored.shape, dtype=stored.dtype, device=self.device)
                torch.distributed.recv(tensor, group=self.of_replica, group_src=stored.stage)
                yield name, tensor


def _own_group(ranks_of_groups: list[list[int]], timeout: int) -> ProcessGroup:
    """Collective: form groups, and return the one that this process belongs to."""
    groups = [process_group.new_group(timeout, ranks) for ranks in ranks_of_groups]
    return next(group for group in groups if group is not None)
