"""What a family of models provides: its names, how to build each model, and the weights that it publishes."""

import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from accel_train.config.fields import Fit
from accel_train.models.splitting import FindBlocks, sequential

Interpolation = Literal["bilinear", "bicubic"]
"""How images are resized, with antialiasing."""
_MOST_PIXELS = 2**16


@dataclass(frozen=True)
class Preprocessing:
    """How the images were prepared on which weights were trained."""

    image_size: int
    """Height and width, pixels."""
    mean: tuple[float, ...]
    """By channel, as a fraction of full white; likewise `std`."""
    std: tuple[float, ...]
    interpolation: Interpolation = "bilinear"
    crop: float | None = None
    """The central crop of evaluation, as a fraction of the shorter side; None if it is not known."""
    fit: Fit | None = None
    """How pictures become square in evaluation; None if it is not known."""
    adapted_to: int | None = None
    """Image size to which the model is adapted, if not `image_size`."""

    def __post_init__(self) -> None:
        """Raise ValueError if images cannot be prepared so: the values may be those of a repository."""
        if not 1 <= self.image_size <= _MOST_PIXELS:
            raise ValueError(f"images of {self.image_size} pixels")
        numbers = all(map(math.isfinite, (*self.mean, *self.std)))
        if not numbers or len(self.mean) != len(self.std) or min(self.std) <= 0:
            raise ValueError(f"mean {self.mean} and std {self.std}")
        if self.crop is not None and not 0 < self.crop <= 1:
            raise ValueError(f"a crop of {self.crop}")


@dataclass(frozen=True)
class Weights:
    """Weights to start from, which are on this machine."""

    name: str
    """What they are, to print."""
    read: Callable[[int], Mapping[str, Any]]
    """Returns the tensors, named as in the model, for images of this size."""
    preprocessing: Preprocessing | None = None
    """None if it is not known: then that of the data is used."""
    classes: tuple[str, ...] | None = None
    """The classes of the head, in order; None if they are not known."""
    digest_of_ids: str = ""
    """SHA-256 of the ids of the classes, one a line, by which data sets may name them, too."""
    headless: tuple[str, ...] = ()
    """The layers of the head, if these weights have none."""
    options: str = "--model, --image-size"
    """The options of the model that was trained, with their values if they are known."""

    def may_be_for(self, classes: tuple[str, ...]) -> bool:
        """Return whether the head is for these classes in this order, as far as its own are known."""
        ids = hashlib.sha256("\n".join(classes).encode("utf-8", "surrogateescape")).hexdigest()
        return self.classes is None or self.classes == classes or self.digest_of_ids == ids


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
    usual_size: int | None = None
    """Image size if none is asked for, pixels; None for that of the data, as far as `sizes` allow."""
    published: Callable[[], Mapping[str, Callable[[], Weights]]] = dict
    """Returns the weights that the library publishes for the model, by name, its default first: functions that
    download them if they are not on this machine."""
    name: str | None = None
    """The name by which a run stores the model, if not that by which it was found."""


@dataclass(frozen=True)
class Family:
    """Models that are found in the same way."""

    example: str
    """What to write for `--model`."""
    names: Callable[[], Sequence[str]]
    """Returns the names to suggest."""
    find: Callable[[str], Architecture | None]
    """Returns the architecture of a name, None if the name is not of this family."""
