"""Packed folders as data sets: crops are read from mapped shards without decoding.

Shape suffixes: N pictures of a split, B images of a batch, C channels, H height, W width.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_train.data.images.crops import typical_side
from accel_train.data.packing.manifest import MANIFEST, UNFINISHED, Manifest, read_manifest, source_note
from accel_train.data.packing.shard import MappedShards, ShardFile
from accel_train.data.sources.base import DataSet, Ids, Listing, Request, View, crop_keys
from accel_train.data.sources.folder import picture_data
from accel_train.data.sources.names import labels_of
from accel_train.data.sources.split import refuse_val_fraction, split_ids
from accel_train.errors import UserError
from accel_train.loggers.text import quantity


@dataclass(frozen=True)
class PackedSource:
    """Pictures of a packed split, by row."""

    classes: tuple[str, ...]
    shards: MappedShards
    rows_N: Tensor
    labels_N: Tensor
    checksums: tuple[str, ...]
    """Of the shards."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Estimate a size as for the original folder."""
        side = typical_side(len(self), lambda image_id: self.shards.shorter_side(int(self.rows_N[image_id])))
        return 3, side, side

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of pictures of each class."""
        return np.bincount(self.labels_N.numpy(), minlength=len(self.classes))

    @property
    def fingerprint(self) -> str:
        """Hash of the pictures and their paths."""
        digest = hashlib.sha256(" ".join(self.checksums).encode())
        digest.update(self.rows_N.numpy().astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def path_hashes(self) -> NDArray[np.int64]:
        """Hash of the path of each picture, by which pictures are split."""
        hashes: NDArray[np.int64] = self.shards.path_hashes()[self.rows_N.numpy()]
        return hashes

    def __len__(self) -> int:
        return len(self.rows_N)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        """Read as every source does; images are channels last, as the resize makes them and models take them."""
        ids_B = torch.from_numpy(np.asarray(ids))
        rows_B: list[int] = self.rows_N[ids_B].tolist()
        self.shards.check(rows_B)
        images = [self._picture(row, key, view) for row, key in zip(rows_B, crop_keys(ids, keys, view), strict=True)]
        return torch.cat(images), self.labels_N[ids_B]

    def pixels(self, image_id: int) -> Tensor:
        """Return the pixels_HWC of a whole picture."""
        row = int(self.rows_N[image_id])
        self.shards.check([row])
        shard, position = self.shards.find(row)
        first, height, width = (int(of[position]) for of in (shard.offsets, shard.heights, shard.widths))
        return shard.pixels[first : first + 3 * height * width].view(height, width, 3)

    def only(self, ids: NDArray[np.int64]) -> Self:
        """Return the source of some of the pictures."""
        return replace(self, rows_N=self.rows_N[torch.from_numpy(ids)], labels_N=self.labels_N[torch.from_numpy(ids)])

    def _picture(self, row: int, key: int | None, view: View) -> Tensor:
        shard, position = self.shards.find(row)
        height, width = int(shard.heights[position]), int(shard.widths[position])
        top, left, rows, columns = view.box(height, width, key)
        first = int(shard.offsets[position]) + 3 * (top * width + left)
        window_1CHW = shard.pixels.as_strided((1, 3, rows, columns), (3 * height * width, 1, 3 * width, 3), first)
        # torch's resize copies an input that is not dense; channels last saves it unpacking the pixels.
        dense_1CHW = window_1CHW.contiguous(memory_format=torch.channels_last)
        return view.resized(dense_1CHW, key)


def open_packed(request: Request) -> DataSet:
    root = Path(request.name)
    manifest = _read_complete(root)
    classes = tuple(manifest.classes)
    wanted = [split for split in manifest.splits if split != "test" or request.with_test]
    splits = {split: _open_split(root, manifest, split, classes, str(root)) for split in wanted}
    if "all" in splits:
        pictures = splits["all"]
        ids = split_ids(
            request, manifest.labels or manifest.source, classes, pictures.labels_N.numpy(), pictures.path_hashes
        )
        train, val = map(pictures.only, ids)
    else:
        refuse_val_fraction(request, request.name)
        train, val = splits["train"], splits["val"]
    return picture_data(f"from {request.name}", train, val, Listing(splits))


def open_packed_for_evaluation(
    root: Path, classes: tuple[str, ...], owner: str, split: str = "val"
) -> Listing[PackedSource]:
    """Open a split of a packed folder, val or test, with the labels of the owner's classes; as val all if it has none.

    Raises:
        UserError: the folder has no such split, has a class that the owner lacks, or is incomplete.
    """
    manifest = _read_complete(root)
    if split == "test" and "test" not in manifest.splits:
        raise UserError(f"{root} has no split test", "leave out --split, or pack a folder that has test/")
    if split not in manifest.splits:
        split = "all"
    return Listing({split: _open_split(root, manifest, split, classes, owner)})


def packed_notes(root: Path) -> tuple[str, ...]:
    """Return a note if the original folder has changed since it was packed."""
    note = source_note(_read_complete(root), root)
    return (note,) if note else ()


def _open_split(root: Path, manifest: Manifest, split: str, classes: tuple[str, ...], owner: str) -> PackedSource:
    """Open a split with labels that are indices in the owner's classes.

    Raises:
        UserError: a shard is missing or has another size, or a class is unknown.
    """
    present = {name: count for name, count in zip(manifest.classes, manifest.splits[split], strict=True) if count}
    labels = torch.tensor(labels_of(present, classes, str(root), owner))
    files = _shard_files(root, manifest, split)
    labels_N = labels.repeat_interleave(torch.tensor(list(present.values())))
    shards = MappedShards(
        files, per_shard=manifest.pictures_per_shard, side=manifest.side, repair=_repair(root, manifest)
    )
    checksums = tuple(manifest.shards[name].sha256 for name in manifest.shard_names(split))
    return PackedSource(classes, shards, torch.arange(len(labels_N)), labels_N, checksums)


def _shard_files(root: Path, manifest: Manifest, split: str) -> list[ShardFile]:
    """Return the shards of a split, and check that they are there."""
    files, left = [], sum(manifest.splits[split])
    for name in manifest.shard_names(split):
        if name not in manifest.shards:
            raise UserError(f"{root / MANIFEST} does not list {name}", _repair(root, manifest))
        path, checksum = root / name, manifest.shards[name]
        try:
            status = path.stat()
            size = status.st_size if S_ISREG(status.st_mode) else 0
        except OSError:
            size = 0
        if size != checksum.bytes:
            raise UserError(
                f"{path} has {quantity(size, 'byte')} instead of {checksum.bytes:,}", _repair(root, manifest)
            )
        pictures = min(left, manifest.pictures_per_shard)
        files.append(ShardFile(str(path), checksum, pictures, status.st_mtime_ns))
        left -= pictures
    return files


def _read_complete(root: Path) -> Manifest:
    """Read the manifest of a packed folder.

    Raises:
        UserError: packing did not finish, or the shards cannot hold the pictures.
    """
    if not (root / MANIFEST).exists():
        command = read_manifest(root / UNFINISHED).command(root)
        raise UserError(f"{root} is not completely packed: it has no {MANIFEST}", f"finish it with: {command}")
    manifest = read_manifest(root / MANIFEST)
    pictures = [sum(counts) for counts in manifest.splits.values()]
    shards = sum(-(-count // manifest.pictures_per_shard) for count in pictures)
    if shards != len(manifest.shards) or sum(pictures) > sum(checksum.bytes for checksum in manifest.shards.values()):
        raise UserError(
            f"{root / MANIFEST} is damaged: {quantity(sum(pictures), 'picture')} "
            f"in {quantity(len(manifest.shards), 'shard')}",
            _repair(root, manifest),
        )
    return manifest


def _repair(root: Path, manifest: Manifest) -> str:
    return f"repair it with: {manifest.command(root)}"
