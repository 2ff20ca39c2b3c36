"""Commits, verifies, finds and prunes checkpoint folders; knows files, not tensors."""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from accel_train.system.atomic_files import PARTIAL, remove, sync
from accel_train.system.records import Count, Sha256, Text, read_record
from accel_train.system.regular_files import open_regular

MANIFEST = "MANIFEST.json"
_FORMAT = 1
_NAME = "update_"
FOLDERS = rf"{_NAME}\d+_\w+|removed_{_NAME}\d+"
"""Pattern of the folders of checkpoints that are being written or removed."""
_SET_ASIDE = "set_aside_"


@dataclass(frozen=True)
class _File:
    sha256: Sha256
    bytes: Count


@dataclass(frozen=True)
class _Manifest:
    files: Mapping[Text, _File]
    """By path relative to the checkpoint; they are compared with what is there, and never opened."""


def begin(checkpoints: Path, update: int, nonce: str) -> Path:
    """Create and return the folder to which all processes of a run write a checkpoint; `nonce` is the run's."""
    partial = checkpoints / f"{PARTIAL}{name_of(update)}_{nonce}"
    partial.mkdir(parents=True, exist_ok=True)
    sync(checkpoints.parent)
    return partial


def commit(partial: Path) -> Path:
    """Turn a folder of :func:`begin` into a checkpoint atomically, and return its path.

    A valid checkpoint of the same update with equal files, which hold the nonce, is kept. Another is replaced.
    """
    final = partial.with_name(_NAME + partial.name.removeprefix(PARTIAL + _NAME).partition("_")[0])
    try:
        _seal(partial)
        if os.path.lexists(final) and (problem(final) or _manifest(final) != _manifest(partial)):
            _remove(final)
        if os.path.lexists(final):
            shutil.rmtree(partial)
        else:
            partial.rename(final)
        sync(final.parent)  # also if it was kept: its run may have been killed before this line
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return final


def problem(checkpoint: Path) -> str | None:
    """Return what is wrong with which file of a checkpoint, or None if it is valid."""
    if checkpoint.is_symlink():
        return "it is a link"
    try:
        expected = read_record(checkpoint / MANIFEST, _Manifest, _FORMAT).files
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except OSError as error:
        return f"{MANIFEST}: {error.strerror}"
    except ValueError as error:
        return f"{MANIFEST} {error}"
    found = _files(checkpoint)
    if unknown := found.keys() - expected.keys():  # a file that is not verified could be loaded
        return f"{min(unknown)} is not in {MANIFEST}"
    differences = (_difference(name, found.get(name), entry) for name, entry in expected.items())
    return next(filter(None, differences), None)


def newest_valid(checkpoints: Path, before: float = math.inf) -> tuple[Path | None, list[str]]:
    """Return the newest valid checkpoint, None if there is none, and a sentence for each newer, damaged one.

    Only those of updates below `before` count.
    """
    problems: list[str] = []
    for checkpoint in reversed([path for path in _by_update(checkpoints) if update_of(path) < before]):
        reason = problem(checkpoint)
        if reason is None:
            return checkpoint, problems
        problems.append(f"checkpoint {checkpoint.name} is damaged ({reason})")
    return None, problems


def updates_from(checkpoints: Path, update: int) -> list[int]:
    """Return the updates of all checkpoints from an update on, valid or not, in order."""
    return [found for path in _by_update(checkpoints) if (found := update_of(path)) >= update]


def is_checkpoint(path: Path) -> bool:
    """Return whether a path has the name of a checkpoint."""
    return path.name.startswith(_NAME) and path.name.removeprefix(_NAME).isdecimal()


def update_of(checkpoint: Path) -> int:
    """Return the number of updates before a checkpoint."""
    return int(checkpoint.name.removeprefix(_NAME))


def name_of(update: int) -> str:
    """Return the name of the checkpoint of an update."""
    return f"{_NAME}{update:06d}"


def prune(checkpoints: Path, keep: int, also: Container[int | None]) -> list[int]:
    """Remove all checkpoints except the `keep` newest, at least one, and those of the updates in `also`.

    Returns the bytes of each that is removed.
    """
    doomed = [path for path in _by_update(checkpoints)[:-keep] if update_of(path) not in also]
    return [_remove(checkpoint) for checkpoint in doomed]


def set_aside_newer(checkpoints: Path, last: Path) -> None:
    """Rename checkpoints newer than `last`, so that a rewound run does not resume from them.

    A checkpoint of the same update that was set aside before is replaced. Do nothing if `last` is another run's.
    """
    if last.parent.exists() and checkpoints.exists() and last.parent.samefile(checkpoints):
        for checkpoint in _by_update(checkpoints):
            if update_of(checkpoint) > update_of(last):
                aside = checkpoint.with_name(f"{_SET_ASIDE}{checkpoint.name}")
                remove(aside)
                checkpoint.rename(aside)
        sync(checkpoints)


def _manifest(checkpoint: Path) -> bytes:
    return (checkpoint / MANIFEST).read_bytes()


def _seal(partial: Path) -> None:
    """Write the manifest of a folder and flush the whole folder to disk."""
    files = {name: _entry(path) for name, path in sorted(_files(partial).items())}
    text = json.dumps({"format": _FORMAT, "files": files}, indent=1)  # ends in }: truncated, it is no valid JSON
    (partial / MANIFEST).write_text(text, encoding="utf-8")
    for path in (*partial.rglob("*"), partial):
        sync(path)


def _files(folder: Path) -> dict[str, Path]:
    """Return all files and links of a folder by relative POSIX path, excluding its manifest."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {name: path for path in found if (name := path.relative_to(folder).as_posix()) != MANIFEST}


def _difference(name: str, path: Path | None, expected: _File) -> str | None:
    if path is None:
        return f"{name} is missing"
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != expected.bytes:
                return f"{name} has {size} bytes instead of {expected.bytes}"
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"{name}: {error.strerror}"
    return None if sha256 == expected.sha256 else f"{name}: sha256 differs"


def _entry(path: Path) -> dict[str, str | int]:
    """Return the manifest's entry of a file."""
    with path.open("rb") as file:
        return asdict(_File(hashlib.file_digest(file, "sha256").hexdigest(), file.tell()))


def _by_update(checkpoints: Path) -> list[Path]:
    """Return all checkpoints, valid or not, the oldest first."""
    found = (path for path in checkpoints.glob(f"{_NAME}*") if path.is_dir() and is_checkpoint(path))
    return sorted(found, key=update_of)


def _remove(checkpoint: Path) -> int:
    """Remove a checkpoint and return its bytes; rename it first, so that a partly removed one is not reported."""
    doomed = checkpoint.with_name(f"{PARTIAL}removed_{checkpoint.name}")
    remove(doomed)
    checkpoint.rename(doomed)
    sync(checkpoint.parent)
    size = 0 if doomed.is_symlink() else sum(path.lstat().st_size for path in _files(doomed).values())
    remove(doomed)  # NFS keeps open files; `clean` removes them later
    return size
