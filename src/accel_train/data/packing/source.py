"""Packed folders as data sets: pictures decoded before, mapped into memory, cropped where they lie.

Shape suffixes: N images of a split, B images, C channels, H height, W width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import safetensors.torch
import torch
from torch import Tensor
from torch.nn import functional

from accel_train.data.images.crops import centre_box, random_box, typical_side
from accel_train.data.packing.manifest import RECORD, UNFINISHED, PackRecord, has_changed, read_record
from accel_train.data.sources.base import DataSet, Ids, Request, as_list
from accel_train.data.sources.folder import picture_data, refuse_fraction, split_ids
from accel_train.errors import UserError


class Shard(NamedTuple):
    """The pictures of one file."""

    pixels: Tensor
    """uint8: rows of red, green and blue, one picture after another."""
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    heights: np.ndarray[Any, np.dtype[np.int32]]
    widths: np.ndarray[Any, np.dtype[np.int32]]


class Shards:
    """The files of a split, each mapped when a process first reads of it: processes share the page cache."""

    def __init__(self, paths: Sequence[Path], pictures_per_shard: int) -> None:
        self._paths = paths
        self._pictures_per_shard = pictures_per_shard
        self._mapped: dict[int, Shard] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}}  # a mapped tensor would be copied to the other process

    def find(self, row: int) -> tuple[Shard, int]:
        """Return the shard that holds a picture, and its place there."""
        number, place = divmod(row, self._pictures_per_shard)
        if number not in self._mapped:
            tensors = safetensors.torch.load_file(self._paths[number])
            self._mapped[number] = Shard(
                tensors["pixels"], *(tensors[name].numpy() for name in ("offsets", "heights", "widths"))
            )
        return self._mapped[number], place


@dataclass(frozen=True)
class PackedSource:
    """Pictures by row of a packed split."""

    classes: tuple[str, ...]
    shards: Shards
    rows_N: Tensor
    labels_N: Tensor
    size: int = 224
    random_crop: bool = False

    @property
    def in_memory(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self.rows_N)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Guess a size as for the folder that was packed."""
        side = typical_side(len(self), self._shorter_side)
        return 3, side, side

    def read(self, ids: Ids, keys: Ids | None) -> tuple[Tensor, Tensor]:
        """Read as every source does; the images come channels last, as the resize makes them and models take them."""
        ids_B = torch.from_numpy(np.asarray(ids))
        rows = self.rows_N[ids_B].tolist()
        drawn = as_list(keys) if self.random_crop and keys is not None else [None] * len(rows)
        return torch.cat(list(map(self._picture, rows, drawn))), self.labels_N[ids_B]

    def at(self, size: int, random_crop: bool) -> Self:
        return replace(self, size=size, random_crop=random_crop)

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        return self

    def only(self, ids: list[int]) -> Self:
        """Return the source of some of the pictures."""
        return replace(self, rows_N=self.rows_N[ids], labels_N=self.labels_N[ids])

    def _shorter_side(self, image_id: int) -> int:
        shard, place = self.shards.find(int(self.rows_N[image_id]))
        return int(min(shard.heights[place], shard.widths[place]))

    def _picture(self, row: int, key: int | None) -> Tensor:
        shard, place = self.shards.find(row)
        height, width = int(shard.heights[place]), int(shard.widths[place])
        box = centre_box(height, width) if key is None else random_box(height, width, key)
        top, left, rows, columns = box
        first = int(shard.offsets[place]) + 3 * (top * width + left)
        window_1CHW = shard.pixels.as_strided((1, 3, rows, columns), (3 * height * width, 1, 3 * width, 3), first)
        # torch's resize copies what is not dense; channels last it need not unpack the pixels.
        dense_1CHW = window_1CHW.contiguous(memory_format=torch.channels_last)
        return functional.interpolate(dense_1CHW, size=(self.size, self.size), mode="bilinear", antialias=True)


def open_packed(request: Request) -> DataSet:
    root = Path(request.name)
    record = _whole_record(root)
    classes = tuple(record.classes)
    splits = {split: _open_split(root, record, split, classes) for split in record.splits}
    if "all" in splits:
        every = splits["all"]
        train, val = map(every.only, split_ids(request, Path(record.source), classes, every.labels_N))
    else:
        refuse_fraction(request)
        train, val = splits["train"], splits["val"]
    return picture_data(request, train, val)


def evaluation_packed(root: Path, classes: tuple[str, ...], owner: str) -> PackedSource:
    """Open all pictures of a packed folder, of its val if it has one, labelled by the classes of `owner`.

    Raises:
        UserError: it holds a class that the owner lacks, or is not whole.
    """
    record = _whole_record(root)
    split = "val" if "val" in record.splits else "all"
    for name, count in zip(record.classes, record.splits[split], strict=True):
        if count and name not in classes:
            raise UserError(
                f"{root} holds the class {name}, which {owner} lacks", "evaluate on data of the same classes"
            )
    return _open_split(root, record, split, classes)


def packed_notes(root: Path) -> tuple[str, ...]:
    """Return what the user of a packed folder should know."""
    record = _whole_record(root)
    if not has_changed(record):
        return ()
    return (f"{record.source} has changed since {root} was packed; pack it again with: {record.command(root)}",)


def _open_split(root: Path, record: PackRecord, split: str, classes: tuple[str, ...]) -> PackedSource:
    """Open a split whose pictures get the labels that their classes have among `classes`."""
    paths = [root / name for name in record.shard_names(split)]
    counts = torch.tensor(record.splits[split])
    labels = torch.tensor([classes.index(name) if name in classes else -1 for name in record.classes])  # -1: has none
    shards = Shards(paths, record.pictures_per_shard)
    return PackedSource(classes, shards, torch.arange(int(counts.sum())), labels.repeat_interleave(counts))


def _whole_record(root: Path) -> PackRecord:
    """Read the record of a packed folder, and see that its files are there.

    Raises:
        UserError: they are not.
    """
    if not (root / RECORD).exists():
        command = read_record(root / UNFINISHED).command(root)
        raise UserError(f"{root} has not been packed to the end: it has no {RECORD}", f"finish it with: {command}")
    record = read_record(root / RECORD)
    for name, facts in record.shards.items():
        path = root / name
        found = path.stat().st_size if path.is_file() else 0
        if found != facts.bytes:
            raise UserError(
                f"{path} has {found:,} bytes instead of {facts.bytes:,}", f"mend it with: {record.command(root)}"
            )
    return record
