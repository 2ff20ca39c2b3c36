"""Muon: momentum of hidden matrices, made orthogonal (Jordan et al. 2024, kellerjordan.github.io/posts/muon).

torch.optim.Muon (torch 2.14) takes no convolutions and computes in bfloat16, whose rounding would depend on how the
matrix is sharded.
"""

from typing import Any

import torch
from torch import Tensor

from accel_train.distributed.strategies.sharded import full, local_parts, own_part
from accel_train.training.adam_moments import adam_updates

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024
_ITERATIONS = 5
_RMS_OF_ADAM = 0.2  # Liu et al. 2025 (Muon is scalable for LLM training), §2.2


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal for parameter groups that are `hidden`, AdamW for all others.

    A convolution is a matrix with one row per output channel. Steps of orthogonal momentum are as large as those of
    AdamW, so that both take the same learning rate and weight decay (Liu et al. 2025, §2.2).
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "hidden": False}
        super().__init__(params, {**defaults, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Collective: update the parameters that have a gradient."""
        assert closure is None
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            if group["hidden"]:
                updates = [self._orthogonal(p, group["momentum"]) for p in params]
            else:
                updates = adam_updates(self.state, params, group["betas"], group["eps"])
            weights = local_parts(params)
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, updates, alpha=-group["lr"])

    def _orthogonal(self, p: Tensor, momentum: float) -> Tensor:
        """Collective: add the gradient to the momentum; return this process's part of the update."""
        if not self.state[p]:
            self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        buffer, gradient = self.state[p]["momentum_buffer"], p.grad
        assert gradient is not None
        buffer.lerp_(gradient, 1 - momentum)
        whole = full(gradient.lerp(buffer, momentum))
        matrix = orthogonalized(whole.flatten(1))
        matrix *= _RMS_OF_ADAM * max(matrix.shape) ** 0.5
        return own_part(matrix.reshape(whole.shape), p)


def orthogonalized(matrix: Tensor) -> Tensor:
    """Return the nearest matrix with orthonormal rows or columns, roughly: singular values are 0.7 to 1.2.

    Five iterations of Newton and Schulz. They compute in the matrix's own dtype: in bfloat16, as usual, gradients that
    differ in the last bit would give updates that differ in the second digit.
    """
    a, b, c = _COEFFICIENTS
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / wide.norm().clamp(min=1e-7)  # singular values are at most 1
    for _ in range(_ITERATIONS):
        square = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(square, square, square, beta=b, alpha=c), wide, beta=a)
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide
