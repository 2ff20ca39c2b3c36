"""Files that are written completely or not at all."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

PARTIAL = ".tmp_"
"""Prefix of a file or folder that is not finished."""


def clean(folder: Path) -> None:
    """Remove what a killed run has left half written or half removed."""
    for path in folder.glob(f"{PARTIAL}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def write_file(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all, and so that it outlives a failure of power."""
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


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
