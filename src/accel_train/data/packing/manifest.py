"""The manifest of a packed folder: where its pictures come from, and what its shards hold."""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from accel_train.errors import UserError, shown
from accel_train.system.atomic_files import write_file
from accel_train.system.records import Count, Sha256, Text, read_record
from accel_train.system.regular_files import open_regular

if TYPE_CHECKING:
    from accel_train.data.sources.picture_files import FolderSource

MANIFEST = "pack.json"
UNFINISHED = "unfinished.json"
"""The manifest while packing is unfinished: it lists the shards that are complete."""
_FORMAT = 3
_SUFFIX = ".safetensors"
_SHARD = rf"(train|val|test|all)-\d{{5,12}}{re.escape(_SUFFIX)}"
FILES = rf"{re.escape(MANIFEST)}|{re.escape(UNFINISHED)}|{_SHARD}"
"""Pattern of the files of a packed folder."""

Positive = Annotated[int, Field(strict=True, ge=1, le=2**53)]


def _named_as_a_shard(name: str) -> str:
    if not re.fullmatch(_SHARD, name):
        raise ValueError(f"{shown(name)} is no name of a shard")
    return name


ShardName = Annotated[str, Field(strict=True), AfterValidator(_named_as_a_shard)]


@dataclass(frozen=True)
class ShardChecksum:
    """Distinguishes a valid shard from a damaged one."""

    sha256: Sha256
    bytes: Count
    index_sha256: Sha256
    """Of the first `index_bytes` of the shard, its index (shard.py)."""
    index_bytes: Count

    def matches(self, path: Path) -> bool:
        """Return whether a file can be read and is this shard."""
        try:
            with open_regular(path) as file:
                same_size = os.fstat(file.fileno()).st_size == self.bytes
                return same_size and checksum_of(file, self.index_bytes) == self
        except OSError:
            return False


def checksum_of(shard: BufferedReader | BytesIO, index_bytes: int) -> ShardChecksum:
    """Return the checksum of an open shard, whose index has a known length."""
    index = shard.read(index_bytes)
    shard.seek(0)
    sha256 = hashlib.file_digest(shard, "sha256").hexdigest()
    return ShardChecksum(sha256, shard.seek(0, os.SEEK_END), hashlib.sha256(index).hexdigest(), len(index))


@dataclass(frozen=True)
class Manifest:
    """Describes a packed folder."""

    source: Text
    fingerprint: Sha256
    """Of the source's files, see :func:`fingerprint`."""
    side: Positive
    """Shorter side of a picture, pixels; smaller pictures keep their size."""
    classes: list[Text]
    splits: dict[Text, list[Count]]
    """Number of pictures of each class, in stored order; keys are train, val and perhaps test, or all."""
    pictures_per_shard: Positive
    shards: dict[ShardName, ShardChecksum]
    """By file name."""
    labels: Text | None = None
    """File with the labels of the pictures; None if their folders are the labels."""
    label_column: Text | None = None
    on_bad_image: Text = "stop"
    """skip: pictures that cannot be read are left out."""
    format: int = _FORMAT

    def __post_init__(self) -> None:
        """Raise ValueError if values contradict each other: the file may be somebody else's."""
        if set(self.splits) - {"test"} != {"train", "val"} and set(self.splits) != {"all"}:
            raise ValueError(f"the splits are {', '.join(map(shown, self.splits))}")
        for split, counts in self.splits.items():
            if len(counts) != len(self.classes):
                raise ValueError(f"{split} has {shown(counts)} pictures in {len(self.classes)} classes")
        for name in self.shards:
            split, _, number = name.removesuffix(_SUFFIX).partition("-")
            first = int(number) * self.pictures_per_shard
            if name != _shard_name(split, int(number)) or first >= sum(self.splits.get(split, ())):
                raise ValueError(f"{name} is a shard of no pictures")

    def shard_names(self, split: str) -> list[str]:
        """Return the file names of a split's shards, in the order of its pictures."""
        count = -(-sum(self.splits[split]) // self.pictures_per_shard)
        return [_shard_name(split, number) for number in range(count)]

    def has_same_pictures(self, other: "Manifest") -> bool:
        """Return whether both describe the same shards; either may be unfinished."""
        return replace(self, shards={}) == replace(other, shards={})

    def command(self, folder: Path) -> str:
        """Return the command that packs this source to a folder."""
        options = {"--side": self.side, "--labels": self.labels, "--label-column": self.label_column}
        options["--on-bad-image"] = self.on_bad_image if self.on_bad_image != "stop" else None
        given = [str(part) for option, value in options.items() if value is not None for part in (option, value)]
        return shlex.join(["accel_train", "pack", self.source, str(folder), *given])

    def write(self, path: Path) -> None:
        write_file(path, json.dumps(asdict(self), indent=1).encode())


def _shard_name(split: str, number: int) -> str:
    return f"{split}-{number:05d}{_SUFFIX}"


def is_packed(folder: Path) -> bool:
    """Return whether a folder has been packed, completely or in part."""
    return any(os.path.isfile(folder / name) for name in (MANIFEST, UNFINISHED))  # noqa: PTH113 - Path's may raise


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        UserError: it is damaged, or of another format.
    """
    try:
        return read_record(path, Manifest, _FORMAT)
    except OSError as error:
        problem = f"cannot read {path}: {error.strerror}"
    except ValueError as error:
        problem = f"{path} {error}"
    raise UserError(problem, f"remove {path.parent} and pack it again")


def fingerprint(splits: "Mapping[str, FolderSource]") -> str:
    """Hash the names, sizes and modification times of all pictures.

    Raises:
        UserError: a picture has vanished since it was listed.
    """
    digest = hashlib.sha256()
    for split, source in splits.items():
        for path, labelled in zip(source.paths, source.labelled_paths(), strict=True):
            try:
                status = os.stat(f"{source.root}/{path}")  # noqa: PTH116 - three times as fast as Path's
            except OSError as error:
                raise UserError(f"cannot read {error.filename}: {error.strerror}", "repair it or remove it") from None
            digest.update(os.fsencode(f"{split}/{labelled}\0{status.st_size}\0{status.st_mtime_ns}\n"))
    return digest.hexdigest()


def source_note(manifest: Manifest, folder: Path) -> str | None:
    """Return a note if the source still exists but differs from what was packed to a folder, or cannot be listed."""
    from accel_train.data.sources.base import LabelsFrom
    from accel_train.data.sources.folder import list_pictures

    source = Path(manifest.source)
    if not os.path.isdir(source):  # noqa: PTH112 - Path's raises if it has no permission
        return None
    try:
        labels = LabelsFrom(Path(manifest.labels) if manifest.labels else None, manifest.label_column)
        found = list_pictures(source, labels, with_test="test" in manifest.splits)
        if fingerprint(found.splits) == manifest.fingerprint:
            return None
    except UserError as error:
        return f"{source} cannot be compared with {folder}, which was packed from it: {error.message}"
    return f"{source} has changed since {folder} was packed; pack it again with: {manifest.command(folder)}"
