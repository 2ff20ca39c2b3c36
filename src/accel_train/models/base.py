"""What a family of models provides: its names, and how to build each model."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from accel_train.models.splitting import FindBlocks, sequential


@dataclass(frozen=True)
class Architecture:
    """How to build a model, and which images it takes."""

    make: Callable[[int, int, int], nn.Module]
    """Called with the number of classes, the number of channels and the image size."""
    channels: int | None = None
    """Input channels; None for any number."""
    sizes: range = range(1, sys.maxsize)
    """Accepted heights and widths, pixels."""
    adapt: Callable[[nn.Module, int], tuple[str, ...]] = lambda module, image_size: ()
    """Adapts the new model to the image size; returns what was done, one sentence each."""
    blocks: FindBlocks = sequential
    """Finds the blocks of the adapted model."""


@dataclass(frozen=True)
class Family:
    """Models that are found in the same way."""

    example: str
    """What to write for `--model`."""
    names: Callable[[], Sequence[str]]
    """Returns the names to suggest."""
    find: Callable[[str], Architecture | None]
    """Returns the architecture of a name, None if the name is not of this family."""
