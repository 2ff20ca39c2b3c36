"""Notices when training diverges: a loss or a weight that is no finite number."""

from typing import Any

import torch
from torch import nn

from accel_train import process_group, sharding
from accel_train.errors import UserError
from accel_train.gradients import gradient_norm
from accel_train.metrics import Sums


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
        greatest = torch._foreach_norm([sharding.local_part(p.detach()) for p in self._parameters], float("inf"))
        finite, batches = self._sums.take_finite()
        finite_weights = torch.stack([norm.to(finite.device).isfinite() for norm in greatest]).all()
        found = process_group.exchange(self._group, torch.stack([finite, finite_weights.long()]).tolist())
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
