"""Parameter groups and optimizers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_MOMENTUM = 0.9


def _sgd(groups: list[dict[str, Any]], betas: tuple[float, float], eps: float, fused: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=0.0, momentum=_MOMENTUM, nesterov=True, fused=fused, foreach=not fused)


def _adamw(groups: list[dict[str, Any]], betas: tuple[float, float], eps: float, fused: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=eps, fused=fused, foreach=not fused)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"sgd": _sgd, "adamw": _adamw}


def build_optimizer(
    name: str, model: nn.Module, *, weight_decay: float, betas: tuple[float, float], eps: float, fused: bool = True
) -> torch.optim.Optimizer:
    """Return an optimizer over a model's trainable parameters; the loop sets the learning rate of each update.

    Weights decay; what has fewer than two dimensions, which is biases and the gains of norms, does not
    (Goyal et al. 2017, §5.1). A fused kernel takes 0.4 to 0.6 of the time (see benchmarks/README.md), but torch 2.14
    has none of SGD for sharded weights.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in parameters if p.ndim > 1]
    rest = [p for p in parameters if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return OPTIMIZERS[name]([group for group in groups if group["params"]], betas, eps, fused)
