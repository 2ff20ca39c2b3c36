"""Packs a folder of pictures: worker processes decode and shrink each picture once and write shards.

Shape suffixes: C channels, H height, W width.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch.utils.data import DataLoader

from accel_train.config.defaults import MOST_PIXELS
from accel_train.data.packing.manifest import (
    FILES,
    MANIFEST,
    UNFINISHED,
    Manifest,
    fingerprint,
    is_packed,
    read_manifest,
)
from accel_train.data.packing.shard_writer import Event, Job, ShardDone, ShardWriter, UnreadablePicture
from accel_train.data.sources.base import LabelsFrom, Listing
from accel_train.data.sources.folder import list_pictures
from accel_train.data.sources.names import is_hub_name, is_saved
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import UserError
from accel_train.loggers.text import quantity, quoted
from accel_train.system.atomic_files import clean
from accel_train.system.folder_lock import FolderLock
from accel_train.system.regular_files import kind_of
from accel_train.system.worker_signals import serve_parent

_PICTURES_PER_SHARD = 256
"""Pictures of 256 × 341 pixels make 67 MB; a worker holds two copies while it writes a shard."""
_PICTURES_PER_REPORT = 16
_USUAL_LABELS = LabelsFrom()


LeaveOut = Callable[[Listing[FolderSource]], Listing[FolderSource]]


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


def begin(
    source: Path, folder: Path, side: int, labels: LabelsFrom = _USUAL_LABELS, leave_out: LeaveOut | None = None
) -> Packing:
    """List the pictures and prepare the folder; shards of the same pictures at the same size are kept.

    `leave_out` returns a listing without the pictures that cannot be read.

    Raises:
        UserError: the source cannot be packed, or the folder cannot be used.
    """
    saved = "a Hugging Face data set"
    if is_hub_name(str(source)):
        raise _not_to_be_packed(source, saved)
    try:
        found = source.is_dir()
    except OSError as error:  # no permission above it
        raise UserError(f"cannot list {source}: {error.strerror}", "make it readable, or give another folder") from None
    if not found:
        raise UserError(f"there is no folder {source}", "give one that holds CLASS/…, or train/CLASS/… and val/CLASS/…")
    if kind := "already packed" if is_packed(source) else saved if is_saved(source) else "":
        raise _not_to_be_packed(source, kind)
    if folder.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{folder} is inside {source}", "pack to a folder elsewhere")
    whole = list_pictures(source, labels, with_test=True)
    listing = leave_out(whole) if leave_out else whole
    on_bad_image = "skip" if leave_out else "stop"
    manifest = _describe(source, fingerprint(whole.splits), listing.splits, side, labels, on_bad_image)
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


def _not_to_be_packed(source: Path, kind: str) -> UserError:
    return UserError(f"{source} is {kind}", f"train on it with: accel_train train --data {quoted(source)}")


def pack(packing: Packing, workers: int, most_pixels: int = MOST_PIXELS) -> Iterator[Event]:
    """Write missing and damaged shards; yield what is done.

    Raises:
        UserError: pictures cannot be read, once all others are packed; or a shard cannot be written.
    """
    folder, shards = packing.folder, dict(packing.manifest.shards)
    jobs = _jobs(packing)
    unreadable: list[UnreadablePicture] = []
    loader = DataLoader(
        ShardWriter(jobs, packing.manifest.side, most_pixels),
        batch_size=None,
        num_workers=min(workers, len(jobs)),
        in_order=False,
        worker_init_fn=serve_parent,
    )
    for event in loader:
        if isinstance(event, UserError):
            raise UserError(event.message, event.hint)  # a copy: the original would hold this frame and so the workers
        if isinstance(event, UnreadablePicture):
            unreadable.append(event)
        if isinstance(event, ShardDone):
            shards[event.name] = event.checksum
            if not (folder / MANIFEST).exists():
                replace(packing.manifest, shards=shards).write(folder / UNFINISHED)
        yield event
    if unreadable:
        raise _unreadable(unreadable, sum(map(len, packing.listing.splits.values())))
    replace(packing.manifest, shards=dict(sorted(shards.items()))).write(folder / MANIFEST)
    (folder / UNFINISHED).unlink(missing_ok=True)


def _describe(
    source: Path,
    fingerprint: str,
    pictures: Mapping[str, FolderSource],
    side: int,
    labels: LabelsFrom,
    on_bad_image: str,
) -> Manifest:
    classes = next(iter(pictures.values())).classes
    return Manifest(
        source=str(source.resolve()),
        fingerprint=fingerprint,
        side=side,
        classes=list(classes),
        splits={split: found.counts.tolist() for split, found in pictures.items()},
        pictures_per_shard=_PICTURES_PER_SHARD,
        shards={},
        labels=str(labels.file.resolve()) if labels.file else None,
        label_column=labels.column,
        on_bad_image=on_bad_image,
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
    if earlier.on_bad_image != manifest.on_bad_image:
        return f"starting over: it was packed there with --on-bad-image {earlier.on_bad_image}"
    if earlier.side != manifest.side:
        return f"starting over: pictures there have a shorter side of {earlier.side}"
    return f"starting over: {manifest.source} has changed"


def _unreadable(found: Sequence[UnreadablePicture], pictures: int) -> UserError:
    if len(found) == 1:
        return UserError(found[0].message, "repair it or remove it")
    return UserError(
        f"{len(found):,} of {quantity(pictures, 'picture')} cannot be read",
        "repair or remove them and run the same command again, or leave them out with --on-bad-image skip",
    )


def _jobs(packing: Packing) -> list[Job]:
    manifest, jobs = packing.manifest, []
    for split, source in packing.listing.splits.items():
        for number, name in enumerate(manifest.shard_names(split)):
            paths = source.paths[number * manifest.pictures_per_shard : (number + 1) * manifest.pictures_per_shard]
            jobs.append(Job(packing.folder / name, source.root, paths, manifest.shards.get(name)))
    return jobs
