"""Packs a folder of pictures: worker processes decode and shrink each picture once and write shards.

Shape suffixes: C channels, H height, W width.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from accel_train.data.images.crops import Box
from accel_train.data.packing.manifest import (
    FILES,
    MANIFEST,
    UNFINISHED,
    Manifest,
    ShardChecksum,
    checksum_of,
    fingerprint,
    is_packed,
    read_manifest,
)
from accel_train.data.packing.shard import ShardBuilder
from accel_train.data.sources.folder import Listing, list_folder
from accel_train.data.sources.picture_files import FolderSource, read_window
from accel_train.data.sources.split import path_hash
from accel_train.errors import UserError
from accel_train.loggers.text import quoted
from accel_train.system.atomic_files import clean, write_file
from accel_train.system.folder_lock import FolderLock
from accel_train.system.regular_files import kind_of
from accel_train.system.worker_signals import serve_parent

_PICTURES_PER_SHARD = 256
"""Pictures of 256 × 341 pixels make 67 MB; a worker holds two copies while it writes a shard."""
_PICTURES_PER_REPORT = 16


@dataclass(frozen=True)
class ShardDone:
    """A shard is complete: written just now, or found valid."""

    name: str
    checksum: ShardChecksum
    was_there: bool


@dataclass(frozen=True)
class Packing:
    """A folder to pack, and the pictures to pack into it."""

    folder: Path
    manifest: Manifest
    """Of the finished folder, except that `shards` are those of an earlier attempt, still to be verified."""
    listing: Listing[FolderSource]
    lock: FolderLock
    """On the folder, held as long as this object is."""
    notes: tuple[str, ...]
    """On the layout of the pictures, and why an earlier attempt could not be used."""

    @property
    def shards(self) -> int:
        return sum(len(self.manifest.shard_names(split)) for split in self.listing.splits)


def begin(source: Path, folder: Path, side: int) -> Packing:
    """List the pictures and prepare the folder; shards of the same pictures at the same size are kept.

    Raises:
        UserError: the source cannot be packed, or the folder cannot be used.
    """
    try:
        found = source.is_dir()
    except OSError as error:  # no permission above it
        raise UserError(f"cannot list {source}: {error.strerror}", "make it readable, or give another folder") from None
    if not found:
        raise UserError(f"there is no folder {source}", "give one that holds CLASS/…, or train/CLASS/… and val/CLASS/…")
    if is_packed(source):
        raise UserError(f"{source} is already packed", f"train on it with: accel_train train --data {quoted(source)}")
    if folder.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{folder} is inside {source}", "pack to a folder elsewhere")
    listing = list_folder(source)
    manifest = _describe(source, listing.splits, side)
    lock = _lock(folder)
    clean(folder, FILES)
    earlier = next((read_manifest(folder / name) for name in (MANIFEST, UNFINISHED) if (folder / name).exists()), None)
    if earlier and earlier.has_same_pictures(manifest):
        return Packing(folder, replace(manifest, shards=earlier.shards), listing, lock, listing.notes)
    manifest.write(folder / UNFINISHED)  # before anything is removed: the folder always has a manifest
    (folder / MANIFEST).unlink(missing_ok=True)
    for name in earlier.shards if earlier else ():
        (folder / name).unlink(missing_ok=True)
    notes = (*listing.notes, *([_difference(earlier, manifest)] if earlier else []))
    return Packing(folder, manifest, listing, lock, notes)


def pack(packing: Packing, workers: int) -> Iterator[int | ShardDone]:
    """Write missing and damaged shards; yield the number of pictures done since the last report, and ShardDone.

    Raises:
        UserError: a picture cannot be read, or a shard cannot be written.
    """
    folder, shards = packing.folder, dict(packing.manifest.shards)
    jobs = _jobs(packing)
    loader = DataLoader(
        _ShardWriter(jobs, packing.manifest.side),
        batch_size=None,
        num_workers=min(workers, len(jobs)),
        in_order=False,
        worker_init_fn=serve_parent,
    )
    for event in loader:
        if isinstance(event, UserError):
            raise UserError(event.message, event.hint)  # a copy: the original would hold this frame and so the workers
        if isinstance(event, ShardDone):
            shards[event.name] = event.checksum
            if not (folder / MANIFEST).exists():
                replace(packing.manifest, shards=shards).write(folder / UNFINISHED)
        yield event
    replace(packing.manifest, shards=dict(sorted(shards.items()))).write(folder / MANIFEST)
    (folder / UNFINISHED).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Job:
    """One shard to verify or to write."""

    path: Path
    root: Path
    pictures: Sequence[str]
    """Paths below the root."""
    expected: ShardChecksum | None


class _ShardWriter(IterableDataset[int | ShardDone | UserError]):
    """Gives worker w of W every W-th job; yields errors, because raised ones would arrive as strings."""

    def __init__(self, jobs: list[_Job], side: int) -> None:
        self._jobs = jobs
        self._side = side

    def __iter__(self) -> Iterator[int | ShardDone | UserError]:
        worker = get_worker_info()
        assert worker is not None
        try:
            for job in self._jobs[worker.id :: worker.num_workers]:
                yield from _verify_or_write(job, self._side)
        except UserError as error:
            yield error


def _verify_or_write(job: _Job, side: int) -> Iterator[int | ShardDone]:
    if job.expected and job.expected.matches(job.path):
        yield len(job.pictures)
        yield ShardDone(job.path.name, job.expected, was_there=True)
        return
    builder = ShardBuilder()
    for count, path in enumerate(job.pictures, 1):
        pixels_HWC = torch.from_numpy(read_window(f"{job.root}/{path}", _whole, side))
        builder.add(shrink(pixels_HWC, side), path_hash(path))
        if count % _PICTURES_PER_REPORT == 0 or count == len(job.pictures):
            yield (count - 1) % _PICTURES_PER_REPORT + 1
    content = builder.encode()
    try:
        write_file(job.path, content)
    except OSError as error:
        raise UserError(
            f"cannot write {job.path}: {error.strerror}",
            "make room and run the same command again: finished shards are kept",
        ) from None
    checksum = checksum_of(BytesIO(content), builder.index_bytes(content))
    yield ShardDone(job.path.name, checksum, was_there=False)


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


def _describe(source: Path, pictures: Mapping[str, FolderSource], side: int) -> Manifest:
    classes = next(iter(pictures.values())).classes
    return Manifest(
        source=str(source.resolve()),
        fingerprint=fingerprint(pictures),
        side=side,
        classes=list(classes),
        splits={split: found.counts.tolist() for split, found in pictures.items()},
        pictures_per_shard=_PICTURES_PER_SHARD,
        shards={},
    )


def _lock(folder: Path) -> FolderLock:
    """Create the folder if it does not exist, and lock it against other processes that pack."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file", "pack to a folder, new or empty")
        folder.mkdir(parents=True, exist_ok=True)
        others = not is_packed(folder) and any(not path.name.startswith(".") for path in folder.iterdir())
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror}", "pack to another folder") from None
    if others:
        raise UserError(f"{folder} holds other files", "pack to a folder, new or empty")
    for path in folder.iterdir():  # nothing outside the folder is written
        if re.fullmatch(FILES, path.name) and (kind := kind_of(path)) != "a file":
            raise UserError(f"{path} is {kind}, not a file of a packed folder", "remove it, or pack to another folder")
    lock = FolderLock(folder)
    try:
        lock.acquire()
    except UserError as error:
        raise UserError(error.message, error.hint.replace("give another --output", "pack to another folder")) from None
    return lock


def _difference(earlier: Manifest, manifest: Manifest) -> str:
    if earlier.source != manifest.source:
        return f"starting over: {earlier.source} was packed there"
    if earlier.side != manifest.side:
        return f"starting over: pictures there have a shorter side of {earlier.side}"
    return f"starting over: {manifest.source} has changed"


def _jobs(packing: Packing) -> list[_Job]:
    manifest, jobs = packing.manifest, []
    for split, source in packing.listing.splits.items():
        for number, name in enumerate(manifest.shard_names(split)):
            paths = source.paths[number * manifest.pictures_per_shard : (number + 1) * manifest.pictures_per_shard]
            jobs.append(_Job(packing.folder / name, source.root, paths, manifest.shards.get(name)))
    return jobs
