"""Files that are written completely or not at all."""

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from accel_train.errors import UserError
from accel_train.system.os_errors import cannot_write
from accel_train.system.run_around import run_that_writes

PARTIAL = ".tmp_"
"""Prefix of an unfinished file or folder."""
_OF_WRITER = "[0-9a-f]{8}_"
"""Pattern of what follows the prefix of a file: each writer has a name of its own."""
STDOUT = Path("-")
"""What other programs take for standard output."""


def refuse_stdout(path: Path, option: str, kind: str = "file") -> None:
    """Check that a path does not mean standard output; `kind` is what is written.

    Raises:
        UserError: it does.
    """
    if path == STDOUT:
        raise UserError(f"{option} -: a {kind} is written, not standard output", f"give {option} the name of a {kind}")


def refuse_unwritable(path: Path, option: str, suffix: str = "", *, of_run: str = "") -> None:
    """Check that a file can be written, before there is anything to write; `option` names it.

    `suffix` is that of the only kind of file that is written, if there is one, and `of_run` the name of the only file
    of a run that it may be.

    Raises:
        UserError: it is standard output or no regular file, of another kind or a file of a run, or its folder does not
            exist or cannot be written to.
    """
    refuse_stdout(path, option)
    another = f"give another {option}"
    in_devices = path.absolute().parent == Path("/dev")  # such as /dev/stdout, which may lead to a file
    if in_devices or (path.exists() and not path.is_file()):
        raise UserError(f"{option} {path} is {'a folder' if path.is_dir() else 'no regular file'}", another)
    if suffix and path.suffix.lower() != suffix:
        kind = suffix.removeprefix(".").upper()
        raise UserError(f"{option} {path}: a {kind} file is written", f"use {option} {path.with_suffix(suffix)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{option} {path}: there is no folder {path.parent}", f"make it, or {another}")
    if path.name != of_run and (run := run_that_writes(path)):
        raise UserError(f"{option} {path} is a file that the run {run} itself writes", another)
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK, effective_ids=True):
        raise UserError(f"{option} {path}: no permission to write in {path.absolute().parent}", another)


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically and durably: a kill or a power failure leaves the old content or the new.

    Several processes may do so at once: one of their contents remains.
    """
    clean(path.parent, re.escape(path.name))
    partial, lock = _begin(path)
    try:
        with os.fdopen(os.dup(lock), "wb") as file:
            file.write(data)
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # that of a write names no file
            error.filename = str(path)
        raise
    finally:
        os.close(lock)


def _begin(path: Path) -> tuple[Path, int]:
    """Create an unfinished file that no other writer has, and return it with a descriptor that keeps it locked."""
    while True:
        partial = path.with_name(f"{PARTIAL}{os.urandom(4).hex()}_{path.name}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # not all file systems have locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):  # another writer may have taken it for that of a killed process
            if os.path.samestat(os.fstat(descriptor), os.lstat(partial)):
                return partial, descriptor
        os.close(descriptor)


def write_output(path: Path, content: bytes, option: str) -> None:
    """Write a file that an option names.

    Raises:
        UserError: it cannot be written.
    """
    try:
        write_file(path, content)
    except OSError as error:
        raise cannot_write(path, option, error) from None


def is_partial(name: str, finished: str) -> bool:
    """Return whether a name is that of an unfinished file or folder; `finished` is a pattern of finished ones."""
    return re.fullmatch(f"{re.escape(PARTIAL)}({_OF_WRITER})?({finished})", name) is not None


def clean(folder: Path, finished: str) -> None:
    """Remove unfinished files and folders of a killed process; `finished` is a pattern of the names they would get.

    A file that a process is writing is locked, and left.
    """
    for path in folder.glob(f"{PARTIAL}*"):
        if is_partial(path.name, finished):
            _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    if path.is_symlink() or not path.is_file():
        remove(path)
        return
    with suppress(OSError):  # it is locked, or gone, or the file system has no locks
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)  # NFS locks only what may be written
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
        finally:
            os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, a folder or a link, but not what the link leads to; do nothing if there is nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
