"""A user's own model, from a function named as my.module:function."""

from functools import partial

from torch import nn

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
    return module
