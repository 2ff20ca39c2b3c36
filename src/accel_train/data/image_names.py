"""Names of the images of a source."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from accel_train.data.sources.base import Source, Subset


@runtime_checkable
class _HasPaths(Protocol):
    paths: Sequence[str]


def image_names(source: Source) -> tuple[str, ...]:
    """Return the path of each image below the folder of its split, or its number if it is not read from a file."""
    if isinstance(source, Subset):
        names = image_names(source.source)
        return tuple(names[image_id] for image_id in source.ids.tolist())
    return tuple(source.paths) if isinstance(source, _HasPaths) else tuple(map(str, range(len(source))))
