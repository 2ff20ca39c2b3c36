"""Notices when training diverges: a loss or a weight that is no finite number."""

from typing import Any

import torch
from torch import Tensor, nn

from accel_train import process_group, sharding
from accel_train.errors import UserError
from accel_train.gradients import gradient_norm

_NEVER = 2**62


class Diverged(UserError):
    """Training has diverged; all processes find it at the same update."""


class Divergence:
    """Watches the losses of all updates without waiting for the device, and looks at the weights when asked."""

    def __init__(self, model: nn.Module, group: Any, device: torch.device) -> None:
        self._parameters = list(model.parameters())
        self._group = group
        self._first = torch.full((), _NEVER, dtype=torch.int64, device=device)

    def note(self, loss_sum: Tensor, update: int) -> None:
        """Remember the first update, counted from 0, whose loss on this process is not finite."""
        self._first = torch.where(loss_sum.isfinite(), self._first, self._first.clamp(max=update))

    def check(self, update: int, learning_rate: float) -> None:
        """Collective: after so many updates, the last at this rate, see that losses and weights are finite.

        Raises:
            Diverged: they are not; the weights must not be saved.
        """
        greatest = torch._foreach_norm([sharding.local_part(p.detach()) for p in self._parameters], float("inf"))
        finite = torch.stack([norm.to(self._first.device).isfinite() for norm in greatest]).all()
        found = process_group.exchange(self._group, torch.stack([self._first, finite.long()]).tolist())
        first = min(first for first, _ in found)
        ranks = [rank for rank, (first_there, _) in enumerate(found) if first_there == first]
        if first == _NEVER and all(finite for _, finite in found):
            return
        norm = float(gradient_norm(self._parameters))
        self._first.fill_(_NEVER)
        where = f"a weight after update {update}"
        if first != _NEVER:
            where = f"the loss of update {first + 1}" + f" on rank {ranks[0]}" * (len(ranks) < len(found))
        raise Diverged(
            f"{where} is not finite: found after update {update}, learning rate {learning_rate:.4g}, "
            f"gradient norm {norm:.4g}",
            "lower --lr, warm up longer or add --clip-norm 1; --on-nan rollback leaves out the data since",
        )
