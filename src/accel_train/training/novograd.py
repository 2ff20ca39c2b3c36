"""NovoGrad: SGD with momentum on gradients that are divided by their norm (Ginsburg et al. 2019, algorithm 1)."""

from typing import Any

import torch
from torch import Tensor

from accel_train.distributed.strategies.sharded import local_parts, norms
from accel_train.training.optimizers import with_gradients


class NovoGrad(torch.optim.Optimizer):
    """Layer-wise second moments: of a parameter one number is kept, the moving average of its gradient's squared norm.

    This normalizes every parameter, biases and the weights of norms too.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.95, 0.98),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Collective: update the parameters that have a gradient."""
        assert closure is None
        trained = with_gradients(self.param_groups)
        every = [p for _, params in trained for p in params]
        if not every:
            return
        squares = norms(local_parts(p.grad for p in every), every[0]).square()
        of_parameter = dict(zip(every, squares.unbind(), strict=True))
        for group, params in trained:
            self._update(group, params, [of_parameter[p] for p in params])

    def _update(self, group: dict[str, Any], params: list[Tensor], squares: list[Tensor]) -> None:
        for p, square in zip(params, squares, strict=True):
            if not self.state[p]:
                self.state[p]["exp_avg"], self.state[p]["second_moment"] = torch.zeros_like(p), square.clone()
        weights, first = local_parts(params), local_parts(self.state[p]["exp_avg"] for p in params)
        second = [self.state[p]["second_moment"] for p in params]
        torch._foreach_lerp_(second, squares, 1 - group["betas"][1])  # of the first update: changes nothing
        roots = torch._foreach_sqrt(second)
        torch._foreach_add_(roots, group["eps"])
        updates = torch._foreach_div(local_parts(p.grad for p in params), roots)
        torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        torch._foreach_mul_(first, group["betas"][0])
        torch._foreach_add_(first, updates)
        torch._foreach_add_(weights, first, alpha=-group["lr"])
