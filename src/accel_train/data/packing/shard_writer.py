"""Worker processes that decode and shrink pictures, and write them as shards.

Shape suffixes: C channels, H height, W width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import IterableDataset, get_worker_info

from accel_train.data.images.crops import Box
from accel_train.data.packing.manifest import ShardChecksum, checksum_of
from accel_train.data.packing.shard import ShardBuilder
from accel_train.data.sources.picture_files import read_window
from accel_train.data.sources.split import path_hash
from accel_train.errors import LocalError, UserError
from accel_train.system.atomic_files import write_file

_PICTURES_PER_REPORT = 16


@dataclass(frozen=True)
class ShardDone:
    """A shard is complete: written just now, or found valid."""

    name: str
    checksum: ShardChecksum
    was_there: bool


@dataclass(frozen=True)
class UnreadablePicture:
    """A picture that cannot be read; its shard is not written."""

    path: str
    message: str


@dataclass(frozen=True)
class Job:
    """One shard to verify or to write."""

    path: Path
    root: Path
    pictures: Sequence[str]
    """Paths below the root."""
    expected: ShardChecksum | None


Event = int | ShardDone | UnreadablePicture | UserError
"""A number is that of pictures done since the last report."""


class ShardWriter(IterableDataset[Event]):
    """Gives worker w of W every W-th job; yields errors, because raised ones would arrive as strings."""

    def __init__(self, jobs: Sequence[Job], side: int, most_pixels: int) -> None:
        self._jobs = jobs
        self._side = side
        self._most_pixels = most_pixels

    def __iter__(self) -> Iterator[Event]:
        worker = get_worker_info()
        assert worker is not None
        try:
            for job in self._jobs[worker.id :: worker.num_workers]:
                yield from _verify_or_write(job, self._side, self._most_pixels)
        except UserError as error:
            yield error


def _verify_or_write(job: Job, side: int, most_pixels: int) -> Iterator[Event]:
    if job.expected and job.expected.matches(job.path):
        yield len(job.pictures)
        yield ShardDone(job.path.name, job.expected, was_there=True)
        return
    builder, all_read = ShardBuilder(), True
    for count, path in enumerate(job.pictures, 1):
        file = f"{job.root}/{path}"
        try:
            pixels_HWC = torch.from_numpy(read_window(file, _whole, side, most_pixels))
            builder.add(shrink(pixels_HWC, side), path_hash(path))
        except LocalError as error:
            all_read = False
            yield UnreadablePicture(file, error.message)
        if count % _PICTURES_PER_REPORT == 0 or count == len(job.pictures):
            yield (count - 1) % _PICTURES_PER_REPORT + 1
    if all_read:
        yield _write(job, builder)


def _write(job: Job, builder: ShardBuilder) -> ShardDone:
    content = builder.encode()
    try:
        write_file(job.path, content)
    except OSError as error:
        raise UserError(
            f"cannot write {job.path}: {error.strerror}",
            "make room and run the same command again: finished shards are kept",
        ) from None
    checksum = checksum_of(BytesIO(content), builder.index_bytes(content))
    return ShardDone(job.path.name, checksum, was_there=False)


def _whole(height: int, width: int) -> Box:
    return 0, 0, height, width


def shrink(picture_HWC: Tensor, side: int) -> Tensor:
    """Resize a picture to a shorter side of `side` pixels; a smaller one keeps its size."""
    height, width = picture_HWC.shape[:2]
    shorter = min(height, width)
    if shorter <= side:
        return picture_HWC.contiguous()
    size = (round(height * side / shorter), round(width * side / shorter))
    picture_1CHW = picture_HWC.permute(2, 0, 1)[None]
    smaller_1CHW = functional.interpolate(picture_1CHW, size=size, mode="bilinear", antialias=True)
    return smaller_1CHW[0].permute(1, 2, 0).contiguous()
