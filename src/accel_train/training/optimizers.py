"""Parameter groups and optimizers."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.config.import_string import import_object
from accel_train.config.optimizers import OPTIMIZERS

LR_FACTOR = "lr_factor"
"""Key of a parameter group: the factor of its learning rate."""
HIDDEN = "hidden"
"""Key of a parameter group: whether it holds :func:`hidden_matrices`."""


@dataclass(frozen=True)
class SpecialParameters:
    """Parameters that train otherwise than the rest, by name."""

    lr_factors: Mapping[str, float] = field(default_factory=dict)
    """Factors of the learning rate; 1 for all others."""
    later: Collection[str] = ()
    """They begin later; torch's fused SGD takes no group in which some have momentum and some have none yet."""
    hidden: Collection[str] | None = None
    """The :func:`hidden_matrices` of a model that is cut already. None: those of the model given."""


_NONE = SpecialParameters()


def build_optimizer(
    name: str,
    model: nn.Module,
    *,
    weight_decay: float,
    betas: tuple[float, float],
    eps: float,
    fused: bool = True,
    special: SpecialParameters = _NONE,
) -> torch.optim.Optimizer:
    """Build an optimizer of a model's trainable parameters; the loop sets the learning rate of each update.

    Parameters with fewer than two dimensions, which are biases and the weights of norms, have no weight decay
    (Goyal et al. 2017, §5.1). A fused kernel takes 0.4 to 0.6 of the time (see benchmarks/README.md), but torch 2.14
    has no fused SGD for sharded weights.
    """
    spec = OPTIMIZERS[name]
    if not spec.hidden_apart:
        special = replace(special, hidden=())
    elif special.hidden is None:
        special = replace(special, hidden=hidden_matrices(model))
    optimizer: torch.optim.Optimizer = import_object(spec.make)(
        _groups(model, weight_decay, special),
        lr=0.0,
        **({"fused": fused, "foreach": not fused} if spec.has_kernels else {}),
        **spec.settings(betas, eps),
    )
    return optimizer


def _groups(model: nn.Module, weight_decay: float, special: SpecialParameters) -> list[dict[str, Any]]:
    """Return a parameter group for each factor of the learning rate, weight decay and time to begin, hidden or not."""
    hidden = special.hidden or ()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    groups: dict[tuple[float, float, bool, bool], list[nn.Parameter]] = {}
    for matrices, decay in ((True, weight_decay), (False, 0.0)):
        for name, parameter in trained.items():
            if (parameter.ndim > 1) == matrices:
                groups.setdefault(
                    (special.lr_factors.get(name, 1.0), decay, name in special.later, name in hidden), []
                ).append(parameter)
    return [
        {"params": parameters, "weight_decay": decay, LR_FACTOR: factor} | ({HIDDEN: True} if is_hidden else {})
        for (factor, decay, _, is_hidden), parameters in groups.items()
    ]


def hidden_matrices(model: nn.Module) -> frozenset[str]:
    """Return the names of a model's weights between the first and the last, which are matrices or convolutions.

    Embeddings and depthwise convolutions, one of whose first two dimensions is 1, are none.
    """
    layers = {name: p for name, p in model.named_parameters() if p.ndim > 1 and p.shape[0] > 1}
    return frozenset(name for name in [*layers][1:-1] if layers[name].shape[1] > 1)


def with_gradients(groups: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], list[Tensor]]]:
    """Return each parameter group with those of its parameters that have a gradient, unless it has none."""
    return [(group, params) for group in groups if (params := [p for p in group["params"] if p.grad is not None])]
