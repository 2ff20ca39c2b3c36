"""Notices when training diverges: a loss or a weight that is no finite number."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.distributed import process_group
from accel_train.distributed.strategies import fsdp2 as sharding
from accel_train.errors import UserError
from accel_train.training.gradients import gradient_norm
from accel_train.training.metrics import Sums


class Diverged(UserError):
    """Training has diverged; all processes find it at the same update."""


class Divergence:
    """Looks when asked, without having waited for the device in between, at all losses since and at the weights."""

    def __init__(self, model: nn.Module, group: Any, sums: Sums, accumulate: int) -> None:
        """Watch a model whose training batches, so many to an update, are added to `sums`."""
        self._parameters = list(model.parameters())
        self._group = group
        self._sums = sums
        self._accumulate = accumulate

    def check(self, update: int, learning_rate: float) -> None:
        """Collective: after so many updates, the last at this rate, see that losses and weights are finite.

        Raises:
            Diverged: they are not; the weights must not be saved.
        """
        finite, batches = self._sums.take_finite()
        finite, finite_weights = torch.stack([finite, self._finite_norms(2).to(finite)]).tolist()
        if not finite_weights:  # or only their squares are too large
            finite_weights = int(self._finite_norms(math.inf))
        found = process_group.exchange(self._group, [finite, finite_weights])
        least = min(losses for losses, _ in found)
        if least == batches and all(weights for _, weights in found):
            return
        norm = float(gradient_norm(self._parameters))
        where = f"a weight after update {update}"
        if least < batches:
            ranks = [rank for rank, (losses, _) in enumerate(found) if losses == least]
            where = f"the loss of update {update - (batches - least - 1) // self._accumulate}"
            where += f" on rank {ranks[0]}" * (len(ranks) < len(found))
        raise Diverged(
            f"{where} is not finite: found after update {update}, learning rate {learning_rate:.4g}, "
            f"gradient norm {norm:.4g}",
            "lower --lr, warm up longer or add --clip-norm 1; --on-nan rollback leaves out the data since",
        )

    def _finite_norms(self, power: float) -> Tensor:
        """Tell whether the norms of this process's weights are finite; that of the power 2 is by far the fastest."""
        norms = torch._foreach_norm([sharding.local_part(p.detach()) for p in self._parameters], power)
        return torch.stack([norm.isfinite() for norm in norms]).all()
