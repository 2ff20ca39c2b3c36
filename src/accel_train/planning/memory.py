"""The memory of one device as a function of the batch size."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self


class Line(NamedTuple):
    """Bytes that grow with the images of a micro-batch."""

    fixed: float
    per_image: float

    def at(self, batch_size: int) -> int:
        return round(self.fixed + self.per_image * batch_size)

    @classmethod
    def through(cls, sizes: tuple[int, int], values: tuple[float, float]) -> Self:
        """Return the line through the values at two batch sizes."""
        per_image = (values[1] - values[0]) / (sizes[1] - sizes[0])
        return cls(values[0] - sizes[0] * per_image, per_image)


@dataclass(frozen=True)
class Peak:
    """Peak memory: the highest of these lines, one per moment of an update."""

    lines: tuple[Line, ...]

    def at(self, batch_size: int) -> int:
        return max(line.at(batch_size) for line in self.lines)

    def largest_batch(self, limit: float) -> int:
        """Return the largest batch size that takes at most `limit` bytes; 0 if not even one image fits."""
        if any(line.fixed > limit for line in self.lines):
            return 0
        sizes = [(limit - line.fixed) / line.per_image for line in self.lines if line.per_image > 0]
        return math.floor(min(sizes, default=0))

    def plus(self, more: float) -> Self:
        """Return the peak if `more` bytes are taken all the time."""
        return type(self)(tuple(Line(line.fixed + more, line.per_image) for line in self.lines))

    @classmethod
    def of(cls, sizes: tuple[int, int], records: tuple[Sequence[int], Sequence[int]]) -> Self:
        """Return the peak of an update, given its bytes after each operation at two batch sizes.

        Every tensor's size is fixed, or grows with the batch. If the operations differ, only their peaks are compared.
        """
        first, second = records
        if len(first) != len(second):
            first, second = [max(first)], [max(second)]
        return cls(tuple(_highest({Line.through(sizes, pair) for pair in zip(first, second, strict=True)})))


def _highest(lines: set[Line]) -> Iterator[Line]:
    """Yield the lines that are not below another one for all batch sizes."""
    steepest = -math.inf
    for line in sorted(lines, reverse=True):
        if line.per_image > steepest:
            yield line
            steepest = line.per_image


@dataclass(frozen=True)
class DeviceMemory:
    """What one device stores, bytes."""

    weights: int
    """Parameters and buffers."""
    gradients: int
    optimizer: int
    ema: int
    activations: Line
    """What a micro-batch leaves for its backward pass, its images included; of a pipeline, all that are on their way.
    """
    peak: Peak
    tree: int = 0
    """Sums of gradients that ``--exact`` holds."""

    @property
    def saved(self) -> int:
        """The copy on the CPU from which this process writes a checkpoint."""
        return self.weights + self.optimizer + self.ema
