"""LAMB: Adam whose steps are in proportion to the norm of each weight (You et al. 2020, algorithm 2)."""

from typing import Any

import torch
from torch import Tensor

from accel_train.distributed.strategies.sharded import local_parts, norms
from accel_train.training.adam_moments import adam_updates
from accel_train.training.optimizers import with_gradients


class LAMB(torch.optim.Optimizer):
    """Layer-wise adaptive moments for batch training.

    The update of a weight w, which is Adam's and its decay, is multiplied by ‖w‖ / ‖update‖. Parameters of fewer than
    two dimensions, which are biases and the weights of norms, take Adam's steps.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Collective: update the parameters that have a gradient."""
        assert closure is None
        trained = with_gradients(self.param_groups)
        updates: dict[Tensor, Tensor] = {}
        for group, params in trained:
            found = adam_updates(self.state, params, group["betas"], group["eps"])
            torch._foreach_add_(found, local_parts(params), alpha=group["weight_decay"])
            updates |= zip(params, found, strict=True)
        _scale_by_trust({p: update for p, update in updates.items() if p.ndim > 1})
        for group, params in trained:
            torch._foreach_add_(local_parts(params), [updates[p] for p in params], alpha=-group["lr"])


def _scale_by_trust(updates: dict[Tensor, Tensor]) -> None:
    """Collective: multiply each update by its trust ratio, 1 where a norm is zero."""
    if not updates:
        return
    parts = [*local_parts(updates), *updates.values()]
    of_weights, of_updates = norms(parts, next(iter(updates))).chunk(2)
    ratios = torch.where((of_weights > 0) & (of_updates > 0), of_weights / of_updates, 1.0)
    torch._foreach_mul_(list(updates.values()), list(ratios.unbind()))
