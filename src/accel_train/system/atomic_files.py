"""Files that are written completely or not at all."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

PARTIAL = ".tmp_"
"""Prefix of an unfinished file or folder."""


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically and durably: a kill or a power failure leaves the old content or the new."""
    partial = path.with_name(PARTIAL + path.name)
    try:
        partial.write_bytes(data)
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def is_partial(name: str, finished: str) -> bool:
    """Return whether a name is that of an unfinished file or folder; `finished` is a pattern of finished ones."""
    return name.startswith(PARTIAL) and re.fullmatch(finished, name.removeprefix(PARTIAL)) is not None


def clean(folder: Path, finished: str) -> None:
    """Remove unfinished files and folders of a killed process; `finished` is a pattern of the names they would get."""
    for path in folder.glob(f"{PARTIAL}*"):
        if is_partial(path.name, finished):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
