"""Decides which layers of a model are frozen, and the factors of their learning rates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from torch import nn

from accel_train.config.finetune_panel import BACKBONE
from accel_train.config.import_string import is_function_name
from accel_train.config.options import ResolvedConfig
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.models.build import BuiltModel, build_model
from accel_train.models.head import head_of
from accel_train.training.freezing import Freezing, freeze
from accel_train.training.layers import Layers, layers_before_head, learning_rate_factors


@dataclass(frozen=True)
class FineTuning:
    """What is trained otherwise than the rest of a model."""

    freezing: Freezing = field(default_factory=Freezing)
    lr_factors: Mapping[str, float] = field(default_factory=dict)
    """By name of the parameter; 1 for all others."""
    notices: tuple[str, ...] = ()
    """What the user should know before the run starts."""


def fine_tuning(config: ResolvedConfig, built: BuiltModel, classes: int) -> FineTuning:
    """Return what a config asks for, of a model for this number of classes.

    Raises:
        UserError: the model has no such layers, or they would keep random weights.
    """
    if config.freeze is None and config.layer_decay == config.head_lr_multiplier == 1:
        return FineTuning()
    _refuse(config)
    head = head_of(built.module, _with_another_class(built, classes), built.name)
    layers = layers_before_head(built.module, head)
    factors = learning_rate_factors(
        layers, head, layer_decay=config.layer_decay, head_multiplier=config.head_lr_multiplier
    )
    if config.freeze is None:
        return FineTuning(lr_factors=factors)
    count = None if config.freeze == BACKBONE else int(config.freeze)
    freezing = freeze(built.module, layers, count, config.unfreeze_at, built.name)
    return FineTuning(freezing, factors, (_notice(built, layers[:count], len(layers), freezing),))


def _refuse(config: ResolvedConfig) -> None:
    """Refuse to freeze random weights, and to freeze until the end; a user's own model may have loaded weights."""
    if config.freeze and not config.starts_from_weights and not is_function_name(config.model):
        raise UserError(
            f"--freeze {config.freeze} would keep random weights: no --weights are given",
            "add --weights, or leave --freeze and --unfreeze-at out",
        )
    if config.unfreeze_at is not None and config.unfreeze_at >= config.epochs:
        less = f"use --unfreeze-at {max(1, config.epochs // 4)}, or " if config.epochs > 1 else ""
        raise UserError(
            f"--unfreeze-at {config.unfreeze_at} must be less than the {quantity(config.epochs, 'epoch')} of the run",
            f"{less}give --epochs {config.unfreeze_at + 1} or more",
        )


def _with_another_class(built: BuiltModel, classes: int) -> nn.Module:
    return build_model(
        built.name,
        classes=classes + 1,
        channels=built.channels,
        data_size=built.image_size,
        image_size=built.image_size,
        adapted_to=built.adapted_to,
    ).module


def _notice(built: BuiltModel, frozen: Layers, layers: int, freezing: Freezing) -> str:
    weights = sum(p.numel() for name, p in built.module.named_parameters() if name in freezing.names)
    time = "" if freezing.epochs is None else f" for {quantity(freezing.epochs, 'epoch')}"
    return (
        f"frozen{time}: {len(frozen)} of {quantity(layers, 'layer')} before the head, up to {_name(frozen[-1])} "
        f"({weights:,} of {quantity(built.parameters, 'parameter')})"
    )


def _name(layer: Sequence[str]) -> str:
    """Return the name of the module that holds a layer, or of its first tensor."""
    paths = zip(*(name.split(".")[:-1] for name in layer), strict=False)
    return ".".join(parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, paths)) or layer[0]
