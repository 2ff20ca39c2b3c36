"""Packs a folder of pictures: each decoded once, made smaller and put into shards that map into memory.

Shape suffixes: C channels, H height, W width.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from accel_train.data.images.crops import FolderSource, read_window
from accel_train.data.images.decode import Box
from accel_train.data.packing.manifest import (
    RECORD,
    UNFINISHED,
    PackRecord,
    ShardFacts,
    fingerprint,
    is_packed,
    read_record,
)
from accel_train.data.sources.folder import list_folder
from accel_train.errors import UserError
from accel_train.system.atomic_files import clean, write_file
from accel_train.system.folder_lock import FolderLock
from accel_train.system.worker_signals import serve_parent

_PICTURES_PER_SHARD = 256
"""Of 256 × 341 pixels: 67 MB, of which a worker holds two copies while it writes them."""
_PICTURES_PER_REPORT = 16


@dataclass(frozen=True)
class ShardDone:
    """A shard is whole: written just now, or found so."""

    name: str
    facts: ShardFacts
    was_there: bool


@dataclass(frozen=True)
class Packing:
    """What is to be done to pack a folder."""

    folder: Path
    record: PackRecord
    """Of what shall be; its shards are those that an earlier attempt left, still to be checked."""
    pictures: dict[str, FolderSource]
    ignored_files: int
    lock: FolderLock
    """On the folder, held as long as this object is."""
    note: str | None
    """Why an earlier attempt was of no use."""

    @property
    def shards(self) -> int:
        return sum(len(self.record.shard_names(split)) for split in self.pictures)


def begin(source: Path, folder: Path, side: int) -> Packing:
    """List the pictures and prepare the folder; shards of the same pictures at the same size are kept.

    Raises:
        UserError: one of the folders is not what it should be.
    """
    if not source.is_dir():
        raise UserError(f"there is no folder {source}", "give one that holds CLASS/…, or train/CLASS/… and val/CLASS/…")
    if is_packed(source):
        raise UserError(f"{source} has been packed already", f"train on it with: accel_train train --data {source}")
    if folder.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{folder} lies inside {source}", "pack to a folder elsewhere")
    pictures, ignored_files = list_folder(source)
    record = _describe(source, pictures, side)
    lock = _locked(folder)
    clean(folder)
    earlier = next((read_record(folder / name) for name in (RECORD, UNFINISHED) if (folder / name).exists()), None)
    if earlier and earlier.is_of_same_pictures(record):
        return Packing(folder, replace(record, shards=earlier.shards), pictures, ignored_files, lock, None)
    record.write(folder / UNFINISHED)  # before what it replaces goes: at no time is the folder nobody's
    (folder / RECORD).unlink(missing_ok=True)
    for name in earlier.shards if earlier else ():
        (folder / name).unlink(missing_ok=True)
    return Packing(folder, record, pictures, ignored_files, lock, _difference(earlier, record) if earlier else None)


def pack(packing: Packing, workers: int) -> Iterator[int | ShardDone]:
    """Write the shards that are missing or damaged; yield numbers of pictures as they are done, and whole shards.

    Raises:
        UserError: a picture cannot be read, or a shard cannot be written.
    """
    folder, shards = packing.folder, dict(packing.record.shards)
    jobs = _jobs(packing)
    loader = DataLoader(
        _ShardWriter(jobs, packing.record.side),
        batch_size=None,
        num_workers=min(workers, len(jobs)),
        in_order=False,
        worker_init_fn=serve_parent,
    )
    for fact in loader:
        if isinstance(fact, UserError):
            raise UserError(fact.message, fact.hint)  # not itself: it would hold this frame, and so the workers
        if isinstance(fact, ShardDone):
            shards[fact.name] = fact.facts
            if not (folder / RECORD).exists():
                replace(packing.record, shards=shards).write(folder / UNFINISHED)
        yield fact
    record = replace(packing.record, shards=dict(sorted(shards.items())))
    record.write(folder / RECORD)
    (folder / UNFINISHED).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Job:
    """One shard to check or to write."""

    path: Path
    pictures: list[str]
    expected: ShardFacts | None


class _ShardWriter(IterableDataset[int | ShardDone | UserError]):
    """Gives each worker process every so manyth job; errors are values, else they would arrive as strings."""

    def __init__(self, jobs: list[_Job], side: int) -> None:
        self._jobs = jobs
        self._side = side

    def __iter__(self) -> Iterator[int | ShardDone | UserError]:
        worker = get_worker_info()
        assert worker is not None
        try:
            for job in self._jobs[worker.id :: worker.num_workers]:
                yield from _done(job, self._side)
        except UserError as error:
            yield error


def _done(job: _Job, side: int) -> Iterator[int | ShardDone]:
    if job.expected and job.path.is_file():
        with job.path.open("rb") as file:
            found = ShardFacts(hashlib.file_digest(file, "sha256").hexdigest(), file.tell())
        if found == job.expected:
            yield len(job.pictures)
            yield ShardDone(job.path.name, found, was_there=True)
            return
    pixels, offsets, sizes = bytearray(), [], []
    for count, path in enumerate(job.pictures, 1):
        picture_HWC = shrink(torch.from_numpy(read_window(path, _whole, side)), side)
        offsets.append(len(pixels))
        sizes.append(picture_HWC.shape[:2])
        pixels += picture_HWC.numpy().data
        if count % _PICTURES_PER_REPORT == 0 or count == len(job.pictures):
            yield (count - 1) % _PICTURES_PER_REPORT + 1
    heights, widths = torch.tensor(sizes, dtype=torch.int32).unbind(1)
    content = safetensors.torch.save(
        {
            "pixels": torch.frombuffer(pixels, dtype=torch.uint8),
            "offsets": torch.tensor(offsets),
            "heights": heights.contiguous(),
            "widths": widths.contiguous(),
        }
    )
    try:
        write_file(job.path, content)
    except OSError as error:
        raise UserError(
            f"cannot write {job.path}: {error.strerror}",
            "make room, and start the same command again: what is packed stays",
        ) from None
    yield ShardDone(job.path.name, ShardFacts(hashlib.sha256(content).hexdigest(), len(content)), was_there=False)


def _whole(height: int, width: int) -> Box:
    return 0, 0, height, width


def shrink(picture_HWC: Tensor, side: int) -> Tensor:
    """Return a picture whose shorter side has so many pixels, or fewer if it had fewer; never enlarged."""
    height, width = picture_HWC.shape[:2]
    shorter = min(height, width)
    if shorter <= side:
        return picture_HWC.contiguous()
    size = (round(height * side / shorter), round(width * side / shorter))
    picture_1CHW = picture_HWC.permute(2, 0, 1)[None]
    smaller_1CHW = functional.interpolate(picture_1CHW, size=size, mode="bilinear", antialias=True)
    return smaller_1CHW[0].permute(1, 2, 0).contiguous()


def _describe(source: Path, pictures: dict[str, FolderSource], side: int) -> PackRecord:
    classes = next(iter(pictures.values())).classes
    return PackRecord(
        source=str(source.resolve()),
        fingerprint=fingerprint(pictures),
        side=side,
        classes=list(classes),
        splits={
            split: torch.tensor(found.labels).bincount(minlength=len(classes)).tolist()
            for split, found in pictures.items()
        },
        pictures_per_shard=_PICTURES_PER_SHARD,
        shards={},
    )


def _locked(folder: Path) -> FolderLock:
    """Make the folder, if it is not there, and keep other processes from packing to it."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", "pack to a folder, new or empty")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror}", "pack to another folder") from None
    if not is_packed(folder) and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise UserError(f"{folder} holds other files", "pack to a folder, new or empty")
    lock = FolderLock(folder)
    try:
        lock.acquire()
    except UserError as error:
        raise UserError(error.message, "stop it first, or pack to another folder") from None
    return lock


def _difference(earlier: PackRecord, record: PackRecord) -> str:
    if earlier.source != record.source:
        return f"starting over: {earlier.source} was packed there"
    if earlier.side != record.side:
        return f"starting over: pictures there have a shorter side of {earlier.side}"
    return f"starting over: {record.source} has changed"


def _jobs(packing: Packing) -> list[_Job]:
    record, jobs = packing.record, []
    for split, source in packing.pictures.items():
        for number, name in enumerate(record.shard_names(split)):
            paths = source.paths[number * record.pictures_per_shard : (number + 1) * record.pictures_per_shard]
            pictures = [f"{source.root}/{path}" for path in paths]
            jobs.append(_Job(packing.folder / name, pictures, record.shards.get(name)))
    return jobs
