"""A user's own model, from a function named as my.module:function."""

from functools import partial
from itertools import chain

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from accel_train.config.import_string import call_function, is_function_name
from accel_train.errors import UserError
from accel_train.models.base import Architecture, Family


def find(name: str) -> Architecture | None:
    """Return the architecture that calls a user's function, None if the name is not of that form."""
    return Architecture(partial(_call, name)) if is_function_name(name) else None


FAMILY = Family("my.module:function", names=tuple, find=find)


def _call(name: str, classes: int, channels: int, image_size: int) -> nn.Module:
    module = call_function(
        name,
        "--model",
        classes=classes,
        num_classes=classes,
        channels=channels,
        in_channels=channels,
        image_size=image_size,
    )
    if not isinstance(module, nn.Module):
        raise UserError(
            f"--model {name} returned {type(module).__name__}, not a torch.nn.Module",
            "return the model from that function",
        )
    _check_weights(module, f"--model {name}")
    return module


def _check_weights(module: nn.Module, option: str) -> None:
    """Refuse a model whose weights cannot be trained.

    Raises:
        UserError: a weight has no size, no data or complex numbers, or none is to train.
    """
    planned = torch.empty(0).is_meta  # of a plan, no model has data
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        if is_lazy(tensor):
            raise UserError(
                f"{option}: {name} has no size yet: its layer is lazy",
                "call the model on torch.zeros(1, channels, image_size, image_size) before you return it",
            )
        if tensor.is_meta and not planned:
            raise UserError(f"{option}: {name} is on the device meta, without data", "make the model on the CPU")
        if tensor.is_complex():
            raise UserError(f"{option}: {name} is {tensor.dtype}", "use floats: complex numbers cannot be trained")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise UserError(f"{option} returned a model without weights to train", "let some have requires_grad=True")
