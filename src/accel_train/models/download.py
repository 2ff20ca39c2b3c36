"""Downloads files of weights to a cache: once a machine, resumed after an interruption, and verified."""

import errno
import hashlib
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, TypeGuard
from urllib.parse import urlsplit

from accel_train.errors import UserError
from accel_train.loggers.text import write_to_stderr
from accel_train.system.regular_files import open_regular

STALL_SECONDS = 30.0
"""Without a byte, after which a connection is given up."""
TRIES = 3
"""Connections in a row that bring nothing more, after which a download is given up."""
_PAUSE_SECONDS, _REPORT_SECONDS = 1.0, 10.0
_CHUNK = 1 << 20
_OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_PARTIAL, _LOCK, _FAILED = ".partial", ".lock", ".failed"
_SHA256 = re.compile(r"-([0-9a-f]{8,64})\.")
"""The first digits of the file's SHA-256, in its name: torch's own convention."""


def torch_cache() -> Path:
    """Return the folder to which torch.hub downloads weights; TORCH_HOME moves it."""
    from torch.hub import get_dir

    return Path(get_dir()) / "checkpoints"


def download(url: str, folder: Path) -> Path:
    """Return the file of a URL in a folder, downloaded if it is not there, and verified by the SHA-256 in its name.

    Raises:
        UserError: it can be neither downloaded nor read, or is another file.
    """
    file = folder / Path(urlsplit(url).path).name
    digits = found[1] if (found := _SHA256.search(file.name)) else ""
    remedy = f"put the file of {url} there: {file}"
    if not file.exists():
        with once_a_machine(file, remedy):
            if not file.exists():
                _fetch(url, file, digits, remedy)
    try:
        if _sha256(file).startswith(digits):
            return file
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}", remedy) from None
    raise UserError(f"{file} is damaged: its sha256 does not start with {digits}", f"remove it; {remedy}")


@contextmanager
def once_a_machine(file: Path, remedy: str) -> Iterator[None]:
    """Let one process of a machine at a time make a file; those that waited for one that failed, fail alike.

    Raises:
        UserError: the folder cannot be written to, or another process has just failed; `remedy` is the hint.
    """
    from filelock import FileLock  # takes 5 ms, and is for downloads only

    folder, began = file.parent, time.time()
    failed = folder / f".{file.name}{_FAILED}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(None, "no permission to write")
        lock = FileLock(folder / f".{file.name}{_LOCK}")
        lock.acquire()
    except OSError as error:
        raise UserError(f"cannot download to {folder}: {error.strerror or error}", remedy) from None
    try:
        with suppress(FileNotFoundError):
            if failed.stat().st_mtime >= began:  # else every process of the machine would wait as long, one by one
                raise UserError(failed.read_text(encoding="utf-8"), remedy)
        yield
        failed.unlink(missing_ok=True)
    except UserError as error:
        with suppress(OSError):
            failed.write_text(error.message, encoding="utf-8")
        raise
    finally:
        lock.release()


def _fetch(url: str, file: Path, digits: str, remedy: str) -> None:
    """Download a file; a part that an earlier try has left is completed, and made again if it was of another file."""
    partial = file.with_name(file.name + _PARTIAL)
    resumed = partial.exists()
    write_to_stderr(f"downloading {url} to {file.parent}\n")
    try:
        _with_retries(lambda: _append(url, partial), partial)
        right = _sha256(partial).startswith(digits)
        if not right and resumed:
            partial.unlink()
            _with_retries(lambda: _append(url, partial), partial)
            right = _sha256(partial).startswith(digits)
        if right:
            partial.replace(file)
            return
        partial.unlink()
    except urllib.error.HTTPError as error:
        raise UserError(f"cannot download {url}: {error.code} {error.reason}", remedy) from None
    except (OSError, HTTPException) as error:
        if _is_local(error):
            hint = "make space there, or let TORCH_HOME name another folder; what has come so far is used then"
            raise UserError(f"cannot write to {file.parent}: {error.strerror}", hint) from None
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise UserError(f"cannot download {url}: {reason}", remedy) from None
    raise UserError(f"{url} is another file: its sha256 does not start with {digits}", remedy)


def _with_retries(fetch: Callable[[], None], partial: Path) -> None:
    """Connect again when a connection breaks, until a few in a row have brought nothing."""
    failures = 0
    while True:
        before = _size(partial)
        try:
            return fetch()
        except (OSError, HTTPException) as error:
            code = 500
            if isinstance(error, urllib.error.HTTPError):
                code = error.code
                error.close()
            if code == 416 and before:  # what is there is no beginning of this file
                partial.unlink()
            elif code < 500:
                raise
            failures = 1 if _size(partial) > before else failures + 1
            if failures >= TRIES or _is_local(error):
                raise
            time.sleep(failures * _PAUSE_SECONDS)


def _append(url: str, partial: Path) -> None:
    """Download what is missing of a partial file.

    Raises:
        OSError: the connection broke, or the disk is full.
    """
    size = _size(partial)
    request = urllib.request.Request(url, headers={"User-Agent": "accel_train"})
    if size:
        request.add_header("Range", f"bytes={size}-")
    with urllib.request.urlopen(request, timeout=STALL_SECONDS) as answer:
        start = size if answer.status == 206 else 0
        length = answer.headers.get("Content-Length")
        with partial.open("ab" if start else "wb") as file:
            received = _copy(answer, file, start, start + int(length or 0))
            file.flush()
            os.fsync(file.fileno())
    if length is not None and received < int(length):
        raise ConnectionError(f"the connection ended after {received:,} of {int(length):,} bytes")


def _copy(answer: BinaryIO, file: BinaryIO, start: int, end: int) -> int:
    """Write an answer to a file and return its bytes; report now and then how far the download is."""
    received, reported = 0, time.monotonic()
    while chunk := answer.read(_CHUNK):
        file.write(chunk)
        received += len(chunk)
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            write_to_stderr(f"{(start + received) / 1e6:,.0f} MB of {end / 1e6:,.0f}\n")
    return received


def _is_local(error: Exception) -> TypeGuard[OSError]:
    """Return whether an error is of the disk, not of the network."""
    if isinstance(error, urllib.error.URLError) or not isinstance(error, OSError):
        return False
    return error.filename is not None or error.errno in _OF_DISKS


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _sha256(file: Path) -> str:
    with open_regular(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
