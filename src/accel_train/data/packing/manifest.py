"""What is written down about a packed folder: where its pictures are from, and what its shards hold."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from accel_train.data.images.crops import FolderSource
from accel_train.data.sources.folder import list_folder
from accel_train.errors import UserError
from accel_train.system.atomic_files import write_file

RECORD = "pack.json"
UNFINISHED = "unfinished.json"
"""The record of a folder that is still being packed: of those shards that are whole."""
_FORMAT = 1


@dataclass(frozen=True)
class ShardFacts:
    """What tells a whole shard from a damaged one."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class PackRecord:
    """Describes a packed folder."""

    source: str
    fingerprint: str
    """Of the source's listing, see :func:`fingerprint`."""
    side: int
    """Pixels of the shorter side of a picture; smaller ones are kept as they are."""
    classes: list[str]
    splits: dict[str, list[int]]
    """Of train and val, or of all: the number of pictures of each class, which follow one another."""
    pictures_per_shard: int
    shards: dict[str, ShardFacts]
    """By file name."""
    format: int = _FORMAT

    def shard_names(self, split: str) -> list[str]:
        """Return the names of a split's shards, in the order of its pictures."""
        count = -(-sum(self.splits[split]) // self.pictures_per_shard)
        return [f"{split}-{number:05d}.safetensors" for number in range(count)]

    def is_of_same_pictures(self, other: "PackRecord") -> bool:
        """Return whether the shards of both are the same, as far as they have been made."""
        return replace(self, shards={}) == replace(other, shards={})

    def command(self, folder: Path) -> str:
        """Return the command that packs the folder as it is described here."""
        return shlex.join(["accel_train", "pack", self.source, str(folder), "--side", str(self.side)])

    def write(self, path: Path) -> None:
        write_file(path, json.dumps(asdict(self), indent=1).encode())


def is_packed(folder: Path) -> bool:
    """Return whether a folder was packed, or begun to be."""
    return (folder / RECORD).is_file() or (folder / UNFINISHED).is_file()


def read_record(path: Path) -> PackRecord:
    """Read a record.

    Raises:
        UserError: it is damaged, or of another version.
    """
    try:
        fields = json.loads(path.read_bytes())
        if fields["format"] == _FORMAT:
            shards = {name: ShardFacts(**facts) for name, facts in fields.pop("shards").items()}
            return PackRecord(**fields, shards=shards)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {error}", f"remove {path.parent} and pack it again") from None
    raise UserError(
        f"{path} has format {fields['format']}, this version reads {_FORMAT}", f"remove {path.parent} and pack it again"
    )


def fingerprint(splits: Mapping[str, FolderSource]) -> str:
    """Hash the names, sizes and times of change of all pictures."""
    digest = hashlib.sha256()
    for split, source in splits.items():
        for path in source.paths:
            facts = os.stat(f"{source.root}/{path}")  # noqa: PTH116 - three times as fast as Path's
            digest.update(os.fsencode(f"{split}/{path}\0{facts.st_size}\0{facts.st_mtime_ns}\n"))
    return digest.hexdigest()


def has_changed(record: PackRecord) -> bool:
    """Return whether the source is still there, but is no longer what was packed."""
    source = Path(record.source)
    if not source.is_dir():
        return False
    try:
        return fingerprint(list_folder(source)[0]) != record.fingerprint
    except (UserError, OSError):  # its classes are gone, or a picture while it was looked at
        return True
