"""The optimizers, one row each: class, arguments and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accel_train.config.lr_schedule import SCALINGS

BASE_BATCH = 256
"""Images per update that the default learning rates are for."""

TIMM = "timm:"
"""Start of the names of timm's models."""
TRANSFORMERS = (
    *("vit", "deit", "beit", "eva", "cait", "xcit", "swin", "maxvit", "maxxvit", "coat", "convnext", "davit"),
    *("flexivit", "focalnet", "gmlp", "hiera", "mixer", "mvit", "pit_", "pvt", "resmlp", "samvit", "tiny_vit"),
    *("twins", "volo", "aimv2", "caformer", "convformer", "convit", "crossvit", "csatv2", "deepseek", "edgenext"),
    *("gcvit", "gemma", "gmixer", "mambaout", "naflexvit", "nest", "poolformer", "qwen", "rdnet", "sam2", "sequencer"),
    "tnt",
)
"""Starts of the names of transformers, and of networks that are trained like them, most without BatchNorm."""

_WITHOUT_NORM = ("alexnet", "vgg", "squeezenet")


@dataclass(frozen=True)
class Rate:
    """The default learning rate of a family of models."""

    lr: float
    """Default of ``--lr``, at `BASE_BATCH` images per update."""
    max_lr: float
    """Default of ``--max-lr``: above it the family is known to diverge, or to learn less."""


@dataclass(frozen=True)
class OptimizerSpec:
    """All that a run needs to know of an optimizer."""

    make: str
    """Import string of its class; called with parameter groups, `lr` and :meth:`settings`."""
    weight_decay: float
    """Default of ``--weight-decay``."""
    scaling: str
    """Default of ``--lr-scaling``."""
    states_per_weight: int
    """Numbers that it keeps for each weight."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Fixed keyword arguments of `make`."""
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """Default learning rates by the start of the model's name; the last row is for all other models."""
    fine_tuning_rates: Mapping[str, Rate] = field(default_factory=dict)
    """Likewise, if training starts from given weights."""
    has_kernels: bool = True
    """Whether it takes `fused` and `foreach`, which choose one of torch's kernels."""
    hidden_apart: bool = False
    """Whether it treats the matrices of hidden layers otherwise, which are groups of parameters of their own."""
    scales_betas: bool = False
    """Whether it takes Adam's betas and epsilon, which the sqrt scaling rule adapts to the global batch."""

    def settings(self, betas: tuple[float, float], eps: float) -> dict[str, Any]:
        """Return its keyword arguments, excluding learning rate and weight decay."""
        return {**self.arguments, **({"betas": betas, "eps": eps} if self.scales_betas else {})}

    def rate(self, model: str, *, from_weights: bool = False) -> Rate:
        """Return the default learning rate of a model, which starts from random weights or from given ones."""
        rates, name = self.fine_tuning_rates if from_weights else self.rates, _name_in_library(model)
        if name.endswith("_bn"):  # VGG with BatchNorm
            return rates[""]
        return next(rate for start, rate in rates.items() if name.startswith(start))

    def usual_peak(self, rate: Rate, global_batch: int) -> float:
        """Return the peak learning rate, given the default rate of a model, if nothing is asked for."""
        return min(rate.lr * SCALINGS[self.scaling](global_batch / BASE_BATCH), rate.max_lr)


OPTIMIZERS: dict[str, OptimizerSpec] = {
    "sgd": OptimizerSpec(
        make="torch.optim:SGD",
        arguments={"momentum": 0.9, "nesterov": True},
        rates={  # measured: benchmarks/defaults/README.md
            "cnn": Rate(0.1, max_lr=0.05),
            "mlp": Rate(0.2, max_lr=0.1),
            "wide_resnet": Rate(0.2, max_lr=0.8),  # 0.1 at 128: Zagoruyko and Komodakis 2016, §3
            **dict.fromkeys(_WITHOUT_NORM, Rate(0.01, max_lr=0.04)),  # torchvision's recipes
            "": Rate(0.1, max_lr=3.2),  # Goyal et al. 2017, §2.1 and §5.1
        },
        fine_tuning_rates={  # measured: benchmarks/finetune/README.md
            **dict.fromkeys(("cnn", "mlp"), Rate(0.05, max_lr=0.025)),  # half of what they take without BatchNorm
            **dict.fromkeys(_WITHOUT_NORM, Rate(0.01, max_lr=0.01)),
            **dict.fromkeys(TRANSFORMERS, Rate(0.01, max_lr=0.02)),  # Dosovitskiy et al. 2021, Table 4
            "": Rate(0.1, max_lr=0.2),
        },
        weight_decay=5e-4,
        scaling="linear",
        states_per_weight=1,
    ),
    "adamw": OptimizerSpec(
        make="torch.optim:AdamW",
        rates={
            **dict.fromkeys(("cnn", "mlp", "wide_resnet"), Rate(0.004, max_lr=0.008)),
            "": Rate(0.001, max_lr=0.002),
        },
        fine_tuning_rates={  # measured: benchmarks/finetune/README.md
            **dict.fromkeys(("cnn", "mlp"), Rate(0.002, max_lr=0.004)),
            **dict.fromkeys(TRANSFORMERS, Rate(6e-5, max_lr=1e-4)),
            **dict.fromkeys(_WITHOUT_NORM, Rate(2e-4, max_lr=4e-4)),
            "": Rate(0.002, max_lr=0.004),
        },
        weight_decay=0.05,
        scaling="sqrt",
        states_per_weight=2,
        scales_betas=True,
    ),
    "lars": OptimizerSpec(
        make="accel_train.training.lars:LARS",
        # The coefficient of You et al. 2017, 0.001, is for rates of 2 to 20, with which biases diverge. That of NVIDIA
        # LARC gives the same steps at a twentieth of the rate.
        arguments={"momentum": 0.9, "trust_coefficient": 0.02},
        rates={
            **dict.fromkeys(("cnn", "mlp"), Rate(0.8, max_lr=1.6)),
            "": Rate(0.1, max_lr=1.6),  # You et al. 2017, by the square root rule
        },
        fine_tuning_rates={**dict.fromkeys(TRANSFORMERS, Rate(0.02, max_lr=0.1)), "": Rate(0.1, max_lr=0.4)},
        weight_decay=5e-4,
        scaling="sqrt",
        states_per_weight=1,
        has_kernels=False,
    ),
    "lamb": OptimizerSpec(
        make="accel_train.training.lamb:LAMB",
        arguments={"betas": (0.9, 0.999), "eps": 1e-6},
        rates={
            **dict.fromkeys(("cnn", "mlp"), Rate(0.016, max_lr=0.064)),
            "": Rate(0.0035, max_lr=0.04),  # You et al. 2020: 0.04 at 32,768 for ResNet-50, by the square root rule
        },
        fine_tuning_rates={**dict.fromkeys(TRANSFORMERS, Rate(7e-4, max_lr=0.003)), "": Rate(0.0035, max_lr=0.014)},
        weight_decay=0.01,
        scaling="sqrt",
        states_per_weight=2,
        has_kernels=False,
    ),
    "novograd": OptimizerSpec(
        make="accel_train.training.novograd:NovoGrad",
        arguments={"betas": (0.95, 0.98), "eps": 1e-8},
        rates={
            **dict.fromkeys(("cnn", "mlp"), Rate(0.04, max_lr=0.05)),
            "": Rate(0.005, max_lr=0.02),  # Ginsburg et al. 2019: 0.01 at 1,024 for ResNet-50
        },
        fine_tuning_rates={**dict.fromkeys(TRANSFORMERS, Rate(5e-4, max_lr=0.002)), "": Rate(0.005, max_lr=0.01)},
        weight_decay=0.002,
        scaling="sqrt",
        states_per_weight=1,
        has_kernels=False,
    ),
    "muon": OptimizerSpec(
        make="accel_train.training.muon:Muon",
        arguments={"momentum": 0.95},
        rates={
            **dict.fromkeys(("cnn", "mlp"), Rate(0.008, max_lr=0.016)),
            "": Rate(0.001, max_lr=0.002),  # that of AdamW: Liu et al. 2025, §2.2
        },
        fine_tuning_rates={**dict.fromkeys(TRANSFORMERS, Rate(6e-5, max_lr=1e-4)), "": Rate(0.002, max_lr=0.004)},
        weight_decay=0.05,
        scaling="sqrt",
        states_per_weight=1,
        has_kernels=False,
        hidden_apart=True,
        scales_betas=True,
    ),
}
"""By the value of ``--optimizer``."""


def default_optimizer(model: str, *, from_weights: bool) -> str:
    """Return the default of ``--optimizer`` for a model, which starts from random weights or from given ones."""
    return "adamw" if from_weights and _name_in_library(model).startswith(TRANSFORMERS) else "sgd"


def _name_in_library(model: str) -> str:
    """Return the name of a model without timm's prefix, and that of a repository of the hub without its owner."""
    return model.removeprefix(TIMM).rpartition("/")[2]
