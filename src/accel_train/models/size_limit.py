"""Stops the building of a model that is larger than the weights that it is for: anybody may have chosen its name."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook


@contextmanager
def values_at_most(most: int) -> Iterator[None]:
    """Let the parameters of the modules that are made meanwhile have this many values in all.

    A new parameter takes no memory yet: layers initialize theirs after they have registered them.

    Raises:
        RuntimeError: they have more.
    """
    left = most

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal left
        left -= parameter.numel()
        if left < 0:
            raise RuntimeError("the model is far larger")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()
