"""Activation checkpointing: a block keeps only its input, and the backward pass computes the rest of it again.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
"""

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from accel_train.distributed.strategies.blocks import CHECKPOINTED, blocks
from accel_train.errors import UserError


def checkpoint_blocks(model: nn.Module, name: str) -> None:
    """Let each block of a model, in training, compute its activations again in the backward pass.

    Parameter names stay as they are. BatchNorm's statistics are recorded before the backward pass, which changes them
    once more (see batch_norm.py), and random numbers are those of the forward pass.

    Raises:
        UserError: the model has no blocks.
    """
    found = blocks(model)
    if not found:
        raise UserError(
            f"--activation-checkpointing has no effect on {name}: no part of it repeats",
            "leave it out, or choose a model of blocks, such as a ResNet or a transformer",
        )
    kinds = {kind: _checkpointed(kind) for kind in set(map(type, found))}
    for block in found:
        block.__class__ = kinds[type(block)]


def _checkpointed(kind: type[nn.Module]) -> type[nn.Module]:
    """Return a class of the same name, whose forward pass is checkpointed in training."""

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not (self.training and torch.is_grad_enabled()):
            return kind.forward(self, *args, **kwargs)
        args, kwargs = tree_map(lambda leaf: leaf, (args, kwargs))  # new lists: DenseNet appends to its own
        return checkpoint(kind.forward, self, *args, use_reentrant=False, context_fn=_same_numbers, **kwargs)

    names = {"forward": forward, CHECKPOINTED: True, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), names)


def _same_numbers() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a forward pass and its repetition; torch itself restores its own generators."""
    return nullcontext(), _generators_at(random.getstate(), np.random.get_state())


@contextmanager
def _generators_at(python: Any, numpy: Any) -> Iterator[None]:
    """Set the generators of Python and numpy back to these states."""
    now = random.getstate(), np.random.get_state()
    _set_generators(python, numpy)
    try:
        yield
    finally:
        _set_generators(*now)


def _set_generators(python: Any, numpy: Any) -> None:
    random.setstate(python)
    np.random.set_state(numpy)
