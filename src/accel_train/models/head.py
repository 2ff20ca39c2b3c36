"""Finds the head of a model: what depends on the number of classes."""

from collections.abc import Iterator

from torch import Tensor, nn

from accel_train.errors import UserError


def head_of(module: nn.Module, for_more_classes: nn.Module, name: str) -> frozenset[str]:
    """Return the names of the head's parameters and buffers, given the same model for more classes.

    Raises:
        UserError: it has none.
    """
    others = dict(_tensors(for_more_classes))
    found = frozenset(key for key, tensor in _tensors(module) if key in others and others[key].shape != tensor.shape)
    if not found:
        raise UserError(
            f"--model {name} has no head: none of its parameters depends on the number of classes",
            "build the last layer for the number of classes that the function is called with",
        )
    return found


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
