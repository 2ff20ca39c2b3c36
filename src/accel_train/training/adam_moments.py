"""Adam's moments of a gradient, for optimizers that make something else of its update."""

from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor

from accel_train.distributed.strategies.sharded import local_parts


def adam_updates(
    state: MutableMapping[Tensor, Any], params: Sequence[Tensor], betas: tuple[float, float], eps: float
) -> list[Tensor]:
    """Add the gradients to the moments; return this process's parts of Adam's updates (Kingma and Ba 2015).

    The parameters must have begun to train with the same update.
    """
    for p in params:
        if not state[p]:
            state[p]["step"] = torch.zeros((), device=p.device)
            state[p]["exp_avg"], state[p]["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
    gradients = local_parts(p.grad for p in params)
    first, second = (local_parts(state[p][slot] for p in params) for slot in ("exp_avg", "exp_avg_sq"))
    steps = [state[p]["step"] for p in params]
    torch._foreach_add_(steps, 1)
    torch._foreach_lerp_(first, gradients, 1 - betas[0])
    torch._foreach_mul_(second, betas[1])
    torch._foreach_addcmul_(second, gradients, gradients, 1 - betas[1])
    # Not read by the CPU: it would wait for the GPU.
    unbiased_first, unbiased_second = (1 - beta ** steps[0].double() for beta in betas)
    updates, roots = torch._foreach_div(first, unbiased_first), torch._foreach_sqrt(second)
    torch._foreach_div_(roots, unbiased_second.sqrt())
    torch._foreach_add_(roots, eps)
    torch._foreach_div_(updates, roots)
    return list(updates)
