"""Detects divergence: a loss or a weight that is NaN or infinite."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.distributed import process_group
from accel_train.distributed.strategies.base import Strategy
from accel_train.errors import UserError
from accel_train.training.metrics import Sums

_NEVER = 2**62
"""Instead of the first update with a non-finite loss."""


class Diverged(UserError):
    """Training has diverged, no mistake of the command line; raised on all processes at the same update."""

    exit_code = 1


class NonfiniteCheck:
    """Checks, when asked, all losses since the last check and the weights; in between it never waits for the device."""

    def __init__(
        self,
        model: nn.Module,
        strategy: Strategy,
        group: Any,
        sums: Sums,
        plan: Plan,
        per_update: int,
        hint: Callable[[int], str],
    ) -> None:
        """Check this model and `sums`, to which `per_update` training batches are added per update.

        `hint` returns what to try after divergence, given the number of updates that led to it.
        """
        self._parameters = list(model.parameters())
        self._strategy = strategy
        self._group = group
        self._sums = sums
        self._plan = plan
        self._per_update = per_update
        self._hint = hint

    def check(self, update: int) -> None:
        """Collective: check that losses and weights are finite after `update` updates.

        Raises:
            Diverged: they are not; the weights must not be saved.
        """
        finite, batches = self._sums.take_finite()
        finite, finite_weights = torch.stack([finite, self._finite_norms(2).to(finite)]).tolist()
        if not finite_weights:  # perhaps only their squares overflow
            finite_weights = int(self._finite_norms(math.inf))
        first_here = update - (batches - finite - 1) // self._per_update if finite < batches else _NEVER
        found = process_group.exchange(self._group, [first_here, finite_weights])
        first = min(losses for losses, _ in found)
        if first == _NEVER and all(weights for _, weights in found):
            return
        norm = float(self._strategy.gradient_norm(self._parameters))
        where, led_to_it = f"a weight after update {update}", update
        if first != _NEVER:
            ranks = [rank for rank, (losses, _) in enumerate(found) if losses == first]
            where = f"the loss of update {first}" + f" on rank {ranks[0]}" * (len(ranks) < len(found))
            led_to_it = first - 1
        rate = self._plan.learning_rate(max(0, led_to_it - 1))
        raise Diverged(
            f"{where} is not finite (learning rate {rate:.4g}): found after update {update}, gradient norm {norm:.4g}",
            self._hint(led_to_it),
        )

    def _finite_norms(self, power: float) -> Tensor:
        """Return whether the norms of this process's weights are finite; power 2 is by far the fastest."""
        parts = [self._strategy.local(p.detach()) for p in self._parameters]
        # A shard of few rows may be empty, and has no infinity norm.
        norms = torch._foreach_norm([part if part.numel() else part.new_zeros(1) for part in parts], power)
        return torch.stack([norm.isfinite() for norm in norms]).all()
