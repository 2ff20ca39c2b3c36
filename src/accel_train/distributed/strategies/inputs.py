"""What a strategy is given: a model with its blocks, and the passes of an update.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from torch import Tensor

T = TypeVar("T")


class Block(Protocol):
    """A part of a model, which makes one tensor out of one; the blocks one after another are its forward pass."""

    @property
    def name(self) -> str:
        """Name of the module that is called first."""
        ...

    @property
    def forward(self) -> Callable[[Tensor], Tensor]: ...

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the modules and parameters that it consists of."""
        ...


class OnMain(Protocol):
    """Collective: calls a function on rank 0 alone and returns its result, or raises its UserError, on all ranks."""

    def __call__(self, function: Callable[[], T]) -> T: ...


@dataclass(frozen=True)
class Division:
    """What a strategy needs to divide a model among processes."""

    blocks: Callable[[], Sequence[Block]]
    """Returns the blocks of the model; raises a UserError if it has none."""
    images_BCHW: Tensor
    """A micro-batch as the model takes it, on the CPU."""
    micro_batches: tuple[int, int]
    """Per update: of this replica, and the most that a replica has."""
    on_main: OnMain
    tick: Callable[[], None]
    """Tells the watchdog that this process may wait for others from here."""
    timeout: int


class Passes(Protocol):
    """What training does around the passes of this process's micro-batches of an update, numbered from 0."""

    @property
    def count(self) -> int: ...

    @property
    def most(self) -> int:
        """The most that a process has; passes beyond `count` change nothing, and keep others company."""
        ...

    @property
    def averaged(self) -> bool:
        """Whether the strategy averages the gradients over replicas, with the last backward pass."""
        ...

    @property
    def tick(self) -> Callable[[], None]:
        """Tells the watchdog that this process may wait for others from here."""
        ...

    def forward(self, m: int) -> AbstractContextManager[Tensor]:
        """Return the context of a forward pass; it gives the images_BCHW."""
        ...

    def loss(self, m: int, outputs: Any) -> Tensor:
        """Return the loss for the outputs of the model."""
        ...

    def backward(self, m: int) -> AbstractContextManager[None]:
        """Return the context of a backward pass."""
        ...
