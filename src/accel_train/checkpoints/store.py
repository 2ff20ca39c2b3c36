"""Commits, verifies, finds and prunes the folders of checkpoints: plain files, nothing of tensors."""

import hashlib
import json
import shutil
from collections.abc import Container
from pathlib import Path

from accel_train.system.atomic_files import PARTIAL, sync

MANIFEST = "MANIFEST.json"
_FORMAT = 1
_NAME = "update_"
_ASIDE = "set_aside_"


def begin(checkpoints: Path, update: int, nonce: str) -> Path:
    """Make and return the folder that all processes of a run write a checkpoint into; `nonce` is the run's."""
    partial = checkpoints / f"{PARTIAL}{_NAME}{update:06d}_{nonce}"
    partial.mkdir(parents=True, exist_ok=True)
    sync(checkpoints.parent)
    return partial


def commit(partial: Path) -> Path:
    """Make a folder of :func:`begin` a checkpoint, at one instant, and return its path.

    A whole one of the same update stays: it holds the same, as runs are deterministic. A damaged one goes.
    """
    final = partial.with_name(_NAME + partial.name.removeprefix(PARTIAL + _NAME).partition("_")[0])
    try:
        _seal(partial)
        if final.exists() and problem(final):
            _remove(final)
        if final.exists():
            shutil.rmtree(partial)
        else:
            partial.rename(final)
        sync(final.parent)  # also for one that stays: its run may have been killed before it came to that
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return final


def problem(checkpoint: Path) -> str | None:
    """Return what is wrong with a checkpoint, naming the file, or None if it is whole."""
    try:
        record = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        written, expected = record["format"], dict(record["files"])
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except OSError as error:
        return f"{MANIFEST}: {error.strerror}"
    except (ValueError, KeyError, TypeError):
        return f"{MANIFEST} is damaged"
    if written != _FORMAT:
        return f"{MANIFEST} has format {written}, this version reads {_FORMAT}"
    there = _files(checkpoint)
    if unknown := there.keys() - expected.keys():  # it could be loaded
        return f"{min(unknown)} is not in {MANIFEST}"
    differences = (_difference(name, there.get(name), facts) for name, facts in expected.items())
    return next(filter(None, differences), None)


def newest_whole(checkpoints: Path) -> tuple[Path | None, list[str]]:
    """Return the newest checkpoint that is whole, and a sentence for each newer one that is not."""
    problems: list[str] = []
    for checkpoint in reversed(_all(checkpoints)):
        reason = problem(checkpoint)
        if reason is None:
            return checkpoint, problems
        problems.append(f"checkpoint {checkpoint.name} is damaged ({reason})")
    return None, problems


def update_of(checkpoint: Path) -> int:
    """Return how many updates were done when a checkpoint was made."""
    return int(checkpoint.name.removeprefix(_NAME))


def prune(checkpoints: Path, keep: int, also: Container[int | None]) -> None:
    """Remove all but the `keep` newest checkpoints, at least one, and those of the updates in `also`."""
    for checkpoint in _all(checkpoints)[:-keep]:
        if update_of(checkpoint) not in also:
            _remove(checkpoint)


def set_aside(checkpoints: Path, last: Path) -> None:
    """Keep a run that goes back to the checkpoint `last` of its own from meeting later ones, which are not its own.

    They stay, under names that are no checkpoint's; an update set aside before goes.
    """
    if last.parent.exists() and checkpoints.exists() and last.parent.samefile(checkpoints):
        for checkpoint in _all(checkpoints):
            if update_of(checkpoint) > update_of(last):
                aside = checkpoint.with_name(f"{_ASIDE}{checkpoint.name}")
                shutil.rmtree(aside, ignore_errors=True)
                checkpoint.rename(aside)
        sync(checkpoints)


def _seal(partial: Path) -> None:
    """Write the manifest of a folder, and bring all of it to the disk."""
    files = {name: _facts(path) for name, path in sorted(_files(partial).items())}
    text = json.dumps({"format": _FORMAT, "files": files}, indent=1)  # ends in }: any shorter text is no JSON
    (partial / MANIFEST).write_text(text, encoding="utf-8")
    for path in (*partial.rglob("*"), partial):
        sync(path)


def _files(folder: Path) -> dict[str, Path]:
    """Return all that could be read from a folder, by relative POSIX path, apart from its manifest."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {name: path for path in found if (name := path.relative_to(folder).as_posix()) != MANIFEST}


def _difference(name: str, path: Path | None, expected: dict[str, str | int]) -> str | None:
    if path is None:
        return f"{name} is missing"
    try:
        facts = _facts(path)
    except OSError as error:
        return f"{name}: {error.strerror}"
    if facts == expected:
        return None
    if facts["bytes"] != expected.get("bytes"):
        return f"{name} has {facts['bytes']} bytes instead of {expected.get('bytes')}"
    return f"{name}: sha256 differs"


def _facts(path: Path) -> dict[str, str | int]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": file.tell()}


def _all(checkpoints: Path) -> list[Path]:
    found = (path for path in checkpoints.glob(f"{_NAME}*") if path.is_dir())
    return sorted((path for path in found if path.name.removeprefix(_NAME).isdecimal()), key=update_of)


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint; half removed it must not be taken for a damaged one."""
    doomed = checkpoint.with_name(f"{PARTIAL}removed_{checkpoint.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    checkpoint.rename(doomed)
    sync(checkpoint.parent)
    shutil.rmtree(doomed, ignore_errors=True)  # NFS keeps files that are open; :func:`clean` removes them later
