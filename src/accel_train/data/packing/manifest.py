"""The manifest of a packed folder: where its pictures come from, and what its shards hold."""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from accel_train.errors import UserError
from accel_train.system.atomic_files import write_file

if TYPE_CHECKING:
    from accel_train.data.sources.picture_files import FolderSource

MANIFEST = "pack.json"
UNFINISHED = "unfinished.json"
"""The manifest while packing is unfinished: it lists the shards that are complete."""
_FORMAT = 2
_SHARD = r"(train|val|all)-\d{5,}\.safetensors"
FILES = rf"{re.escape(MANIFEST)}|{re.escape(UNFINISHED)}|{_SHARD}"
"""Pattern of the files of a packed folder."""


@dataclass(frozen=True)
class ShardChecksum:
    """Distinguishes a valid shard from a damaged one."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """Describes a packed folder."""

    source: str
    fingerprint: str
    """Of the source's files, see :func:`fingerprint`."""
    side: int
    """Shorter side of a picture, pixels; smaller pictures keep their size."""
    classes: list[str]
    splits: dict[str, list[int]]
    """Number of pictures of each class, in stored order; keys are train and val, or all."""
    pictures_per_shard: int
    shards: dict[str, ShardChecksum]
    """By file name."""
    format: int = _FORMAT

    def shard_names(self, split: str) -> list[str]:
        """Return the file names of a split's shards, in the order of its pictures."""
        count = -(-sum(self.splits[split]) // self.pictures_per_shard)
        return [f"{split}-{number:05d}.safetensors" for number in range(count)]

    def has_same_pictures(self, other: "Manifest") -> bool:
        """Return whether both describe the same shards; either may be unfinished."""
        return replace(self, shards={}) == replace(other, shards={})

    def check(self) -> None:
        """Raise ValueError with what cannot be right: the file may be somebody else's."""
        for name, checksum in self.shards.items():
            if not re.fullmatch(_SHARD, name):
                raise ValueError(f"{name!r} is no name of a shard")
            if not isinstance(checksum.sha256, str) or not _is_count(checksum.bytes):
                raise ValueError(f"{name} has the checksum {checksum}")
        if set(self.splits) not in ({"train", "val"}, {"all"}):
            raise ValueError(f"the splits are {', '.join(map(str, self.splits))}")
        for split, counts in self.splits.items():
            if len(counts) != len(self.classes) or not all(map(_is_count, counts)):
                raise ValueError(f"{split} has {counts} pictures in {len(self.classes)} classes")
        if not all(isinstance(text, str) for text in (self.source, self.fingerprint, *self.classes)):
            raise ValueError("a name is no text")
        if not (_is_count(self.side) and _is_count(self.pictures_per_shard) and self.side and self.pictures_per_shard):
            raise ValueError(f"side is {self.side!r} and pictures_per_shard is {self.pictures_per_shard!r}")

    def command(self, folder: Path) -> str:
        """Return the command that packs this source to a folder."""
        return shlex.join(["accel_train", "pack", self.source, str(folder), "--side", str(self.side)])

    def write(self, path: Path) -> None:
        write_file(path, json.dumps(asdict(self), indent=1).encode())


def is_packed(folder: Path) -> bool:
    """Return whether a folder has been packed, completely or in part."""
    return any(os.path.isfile(folder / name) for name in (MANIFEST, UNFINISHED))  # noqa: PTH113 - Path's may raise


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        UserError: it is damaged, or of another format.
    """
    try:
        fields = json.loads(path.read_bytes())
        if fields["format"] == _FORMAT:
            shards = {name: ShardChecksum(**checksum) for name, checksum in fields.pop("shards").items()}
            manifest = Manifest(**fields, shards=shards)
            manifest.check()
            return manifest
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {error}", f"remove {path.parent} and pack it again") from None
    raise UserError(
        f"{path} has format {fields['format']}, this version reads {_FORMAT}", f"remove {path.parent} and pack it again"
    )


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def fingerprint(splits: "Mapping[str, FolderSource]") -> str:
    """Hash the names, sizes and modification times of all pictures.

    Raises:
        UserError: a picture has vanished since it was listed.
    """
    digest = hashlib.sha256()
    for split, source in splits.items():
        for path in source.paths:
            try:
                status = os.stat(f"{source.root}/{path}")  # noqa: PTH116 - three times as fast as Path's
            except OSError as error:
                raise UserError(f"cannot read {error.filename}: {error.strerror}", "repair it or remove it") from None
            digest.update(os.fsencode(f"{split}/{path}\0{status.st_size}\0{status.st_mtime_ns}\n"))
    return digest.hexdigest()


def source_note(manifest: Manifest, folder: Path) -> str | None:
    """Return a note if the source still exists but differs from what was packed to a folder, or cannot be listed."""
    from accel_train.data.sources.folder import list_folder

    source = Path(manifest.source)
    if not os.path.isdir(source):  # noqa: PTH112 - Path's raises if it has no permission
        return None
    try:
        if fingerprint(list_folder(source).splits) == manifest.fingerprint:
            return None
    except UserError as error:
        return f"{source} cannot be compared with {folder}, which was packed from it: {error.message}"
    return f"{source} has changed since {folder} was packed; pack it again with: {manifest.command(folder)}"
