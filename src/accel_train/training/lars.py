"""LARS: SGD with momentum whose steps are in proportion to the norm of each weight (You et al. 2017, algorithm 1)."""

from typing import Any

import torch
from torch import Tensor

from accel_train.distributed.strategies.sharded import local_parts, norms
from accel_train.training.optimizers import with_gradients


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling.

    The gradient of a weight w, with its decay, is multiplied by c · ‖w‖ / (‖gradient‖ + decay · ‖w‖). Parameters of
    fewer than two dimensions, which are biases and the weights of norms, take the steps of SGD.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        trust_coefficient: float = 0.001,
        eps: float = 1e-8,
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**defaults, "trust_coefficient": trust_coefficient, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Collective: update the parameters that have a gradient."""
        assert closure is None
        trained = with_gradients(self.param_groups)
        ratios = self._trust_ratios([(group, p) for group, params in trained for p in params if p.ndim > 1])
        for group, params in trained:
            self._update(group, params, ratios)

    def _trust_ratios(self, matrices: list[tuple[dict[str, Any], Tensor]]) -> dict[Tensor, Tensor]:
        """Collective: return the factor of each gradient; 1 where a norm is zero."""
        if not matrices:
            return {}
        weights = [p for _, p in matrices]
        parts = [*local_parts(weights), *local_parts(p.grad for p in weights)]
        of_weights, of_gradients = (found.unbind() for found in norms(parts, weights[0]).chunk(2))
        return {
            p: torch.where(
                (weight > 0) & (gradient > 0),
                group["trust_coefficient"] * weight / (gradient + group["weight_decay"] * weight + group["eps"]),
                1.0,
            )
            for (group, p), weight, gradient in zip(matrices, of_weights, of_gradients, strict=True)
        }

    def _update(self, group: dict[str, Any], params: list[Tensor], ratios: dict[Tensor, Tensor]) -> None:
        for p in params:
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        weights, buffers = local_parts(params), local_parts(self.state[p]["momentum_buffer"] for p in params)
        gradients = torch._foreach_add(local_parts(p.grad for p in params), weights, alpha=group["weight_decay"])
        for p, gradient in zip(params, gradients, strict=True):
            if p in ratios:
                gradient.mul_(ratios[p])
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, gradients)
        torch._foreach_add_(weights, buffers, alpha=-group["lr"])
