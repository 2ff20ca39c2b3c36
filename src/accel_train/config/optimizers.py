"""The optimizers, one row each: class, arguments and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OptimizerSpec:
    """All that a run needs to know of an optimizer."""

    make: str
    """Import string of its class; called with parameter groups, `lr`, `fused`, `foreach` and :meth:`settings`."""
    base_lr: float
    """Default of ``--lr``."""
    weight_decay: float
    """Default of ``--weight-decay``."""
    scaling: str
    """Default of ``--lr-scaling``."""
    states_per_weight: int
    """Numbers that it keeps for each weight."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Fixed keyword arguments of `make`."""
    base_lr_by_model: Mapping[str, float] = field(default_factory=dict)
    """Default of ``--lr`` for models without BatchNorm or of our own, by the start of the model's name."""
    scales_betas: bool = False
    """Whether it takes Adam's betas and epsilon, which the sqrt scaling rule adapts to the global batch."""

    def settings(self, betas: tuple[float, float], eps: float) -> dict[str, Any]:
        """Return its keyword arguments, excluding learning rate and weight decay."""
        return {**self.arguments, **({"betas": betas, "eps": eps} if self.scales_betas else {})}

    def default_lr(self, model: str) -> float:
        """Return the base learning rate for a model."""
        if model.endswith("_bn"):  # VGG with BatchNorm
            return self.base_lr
        return next((lr for start, lr in self.base_lr_by_model.items() if model.startswith(start)), self.base_lr)


OPTIMIZERS: dict[str, OptimizerSpec] = {
    "sgd": OptimizerSpec(
        make="torch.optim:SGD",
        arguments={"momentum": 0.9, "nesterov": True},
        base_lr=0.1,  # Goyal et al. 2017, §2.1, at 256 images per update
        # The small ones are torchvision's recipes for networks without BatchNorm.
        base_lr_by_model={"cnn": 0.2, "mlp": 0.2, "alexnet": 0.01, "vgg": 0.01, "squeezenet": 0.01},
        weight_decay=5e-4,
        scaling="linear",
        states_per_weight=1,
    ),
    "adamw": OptimizerSpec(
        make="torch.optim:AdamW",
        base_lr=1e-3,
        weight_decay=0.05,
        scaling="sqrt",
        states_per_weight=2,
        scales_betas=True,
    ),
}
"""By the value of ``--optimizer``."""
