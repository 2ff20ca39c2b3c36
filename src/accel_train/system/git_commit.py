"""Reads which commit of git a folder is at, without starting git."""

import re
from contextlib import suppress
from pathlib import Path

from accel_train.system.regular_files import read_regular

_HASH = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_BYTES = 2**22
"""Of a file of git; packed-refs has a line for each branch and tag."""


def commit_of(folder: Path) -> str:
    """Return the hash of the commit that the repository around a folder has checked out; empty if there is none."""
    with suppress(OSError, ValueError):
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.is_dir():
                return _head(git)
            if git.is_file():  # of a worktree or submodule
                return _head(place / _read(git).removeprefix("gitdir:").strip())
    return ""


def _head(git: Path) -> str:
    head = _read(git / "HEAD")
    if head.startswith("ref:"):
        head = _commit_of_ref(git, head.removeprefix("ref:").strip())
    return head if _HASH.fullmatch(head) else ""


def _commit_of_ref(git: Path, ref: str) -> str:
    """Return the commit of a branch: from a file of its own, or a line of packed-refs; both may be shared by worktrees.

    Raises:
        OSError: there is none yet.
    """
    places = [git]
    with suppress(OSError):
        places.append(git / _read(git / "commondir"))
    for place in places:
        with suppress(OSError):
            return _read(place / ref)
    lines = (line.split() for line in _read(places[-1] / "packed-refs").splitlines())
    return next((words[0] for words in lines if words[1:] == [ref]), "")


def _read(path: Path) -> str:
    return read_regular(path, _MOST_BYTES).decode("utf-8").strip()
