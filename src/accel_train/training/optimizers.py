"""Parameter groups and optimizers."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from accel_train.config.import_string import import_object
from accel_train.config.optimizers import OPTIMIZERS

LR_FACTOR = "lr_factor"
"""Key of a parameter group: the factor of its learning rate."""


def build_optimizer(
    name: str,
    model: nn.Module,
    *,
    weight_decay: float,
    betas: tuple[float, float],
    eps: float,
    fused: bool = True,
    lr_factors: Mapping[str, float] = MappingProxyType({}),
    later: Collection[str] = (),
) -> torch.optim.Optimizer:
    """Build an optimizer of a model's trainable parameters; the loop sets the learning rate of each update.

    `lr_factors` are those of some parameters, by name. The parameters named in `later` begin to train later than the
    others; torch's fused SGD takes no group in which some have momentum and some have none yet.

    Parameters with fewer than two dimensions, which are biases and the weights of norms, have no weight decay
    (Goyal et al. 2017, §5.1). A fused kernel takes 0.4 to 0.6 of the time (see benchmarks/README.md), but torch 2.14
    has no fused SGD for sharded weights.
    """
    spec = OPTIMIZERS[name]
    optimizer: torch.optim.Optimizer = import_object(spec.make)(
        _groups(model, weight_decay, lr_factors, later),
        lr=0.0,
        fused=fused,
        foreach=not fused,
        **spec.settings(betas, eps),
    )
    return optimizer


def _groups(
    model: nn.Module, weight_decay: float, lr_factors: Mapping[str, float], later: Collection[str]
) -> list[dict[str, Any]]:
    """Return a parameter group for each factor of the learning rate, weight decay and time to begin."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    groups: dict[tuple[float, float, bool], list[nn.Parameter]] = {}
    for matrices, decay in ((True, weight_decay), (False, 0.0)):
        for name, parameter in trained.items():
            if (parameter.ndim > 1) == matrices:
                groups.setdefault((lr_factors.get(name, 1.0), decay, name in later), []).append(parameter)
    return [
        {"params": parameters, "weight_decay": decay, LR_FACTOR: factor}
        for (factor, decay, _), parameters in groups.items()
    ]
