"""Synthetic images: noise in which each class has its own brighter rows, so that there is something to learn."""

import torch

from accel_train.data.sources.base import DataSet, Request
from accel_train.data.sources.memory import MemorySource, memory_data
from accel_train.errors import UserError
from accel_train.rng import make_key

_NAME = "synthetic"
_SIZES = (1280, 3, 32, 32, 10)
"""Training images, channels, height, width and classes, unless given."""


def is_synthetic(name: str) -> bool:
    return name.partition(":")[0] == _NAME


def open_synthetic(request: Request) -> DataSet:
    """Generate images of the sizes in the name; the seed does not change them.

    Raises:
        UserError: the sizes are invalid.
    """
    count, channels, height, width, classes = parse_sizes(request.name)

    def generate(split: str, images: int) -> MemorySource:
        generator = torch.Generator().manual_seed(make_key("fake", split) >> 1)
        pixels = torch.randint(0, 128, (images, channels, height, width), dtype=torch.uint8, generator=generator)
        labels = torch.arange(images) % classes
        rows = torch.arange(height) * classes // height
        pixels += (labels[:, None] % height == rows).to(torch.uint8)[:, None, :, None] * 64
        return MemorySource(tuple(map(str, range(classes))), pixels, labels)

    return memory_data(_NAME, "generated", generate("train", count), generate("val", max(classes, count // 5)))


def parse_sizes(name: str) -> tuple[int, ...]:
    """Return the training images, channels, height, width and classes in a name.

    Raises:
        UserError: they are invalid.
    """
    given = name.partition(":")[2]
    try:
        sizes = tuple(map(int, given.split(","))) if given else ()
    except ValueError:
        sizes = (0,)
    count, channels, height, width, classes = (*sizes, *_SIZES[len(sizes) :])[:5]
    if len(sizes) > 5 or min(count, channels, height, width) < 1 or not 2 <= classes <= count:
        raise UserError(
            f"--data {name}: invalid sizes", "write synthetic:N,C,H,W,K, for example synthetic:1280,3,32,32,10"
        )
    return count, channels, height, width, classes
