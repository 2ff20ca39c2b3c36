"""Recognizes errors of the operating system; names the file system or limit at fault and what to change."""

import errno
import os
import re
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from accel_train.errors import UserError

_SHARED_MEMORY = Path("/dev/shm")
AGAIN = "start the same command again"
RESUME = f"{AGAIN}: a run resumes from its last checkpoint"
_NUMBER = re.compile(r": ([^:]+) \((?:os error )?(\d+)\)$")
"""The end of messages of torch and safetensors for an error of the system."""
_WORKER = re.compile(
    r"DataLoader worker \(pid(?:\(s\))? [^)]*\) (?:is killed by signal: (?P<signal>[^.]+)|exited unexpectedly)"
)


_UNITS = (("GiB", 30), ("MiB", 20), ("KiB", 10))
_FULL_SHARE = 0.02
"""Of a file system, at most: with more left, it is not the one that is full."""


class Explanation(NamedTuple):
    """What the system refused, and what the user can do."""

    reason: str
    hint: str


def explain(error: BaseException, path: Path | None = None, again: str = RESUME) -> Explanation | None:
    """Return the explanation of an error of the system; None if it is another one, perhaps a bug.

    `path` is what was written or read, unless the error names it; `again` is what to do when there is space.
    """
    if worker := _WORKER.match(str(error)):
        return _lost_worker(worker["signal"], again)
    number = number_of(error)
    named = getattr(error, "filename", None)
    found = Path(os.fsdecode(named)) if isinstance(named, str | bytes) else path
    return _BY_NUMBER[number](number, found, again) if number in _BY_NUMBER else None


def cannot_write(path: Path, option: str, error: BaseException) -> UserError:
    """Return the error of a file that an option names and that cannot be written."""
    another, number = f"give another {option}", number_of(error)
    of_file = number in (errno.EACCES, errno.EPERM) or (number == errno.ENOENT and path.parent.is_dir())
    found = None if of_file else explain(error, path, f"{AGAIN}, or {another}")
    found = found or Explanation(getattr(error, "strerror", None) or str(error), another)
    return UserError(f"cannot write {path}: {found.reason}", found.hint)


def number_of(error: BaseException) -> int | None:
    """Return the errno of an error, also of one that only its message tells."""
    text = str(error)
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and "failed to map segment" in text):
        return errno.ENOMEM
    if isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't allocate memory" in text:
        return errno.ENOMEM
    if "can't start new thread" in text:
        return errno.EAGAIN
    found = _NUMBER.search(text)
    return int(found[2]) if found and os.strerror(int(found[2])) == found[1] else None


def format_bytes(count: float) -> str:
    """Format bytes as KiB, MiB or GiB."""
    unit, power = next((unit, power) for unit, power in _UNITS if count >= 2**power or power == 10)
    return f"{count / 2**power:,.1f} {unit}"


def address_space_limit() -> str | None:
    """Return a description of the limit of this process's memory, None if there is none."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else f"this process may use {format_bytes(limit)} (ulimit -v)"


def _full(number: int, path: Path | None, again: str) -> Explanation:
    places = [_mount_point(path)] if path else _likely_places()
    place = min(places, key=_free_share)
    if path is None and _free_share(place) > _FULL_SHARE:  # the file that did not fit has been removed
        names = ", ".join(sorted({str(place) for place in places}))
        return Explanation(os.strerror(number), f"free some space on that of {names} which df shows to be full")
    reason = f"{os.strerror(number)}: {_space(place)}"
    if place == _mount_point(_SHARED_MEMORY):
        larger = f"docker run --shm-size 1g, or mount -o remount,size=1g {place}"
        return Explanation(reason, f"enlarge shared memory ({larger}), or use --workers 0")
    if path is None and place == _mount_point(_temporary()):
        return Explanation(reason, "free some space there, or set TMPDIR to a folder with more")
    return Explanation(reason, f"free some space and {again}")


def _too_large(number: int, path: Path | None, again: str) -> Explanation:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY:
        return Explanation(f"{os.strerror(number)} for this file system", "use another file system")
    reason = f"{os.strerror(number)}: this process may write files of {format_bytes(limit)} (ulimit -f)"
    return Explanation(reason, f"run ulimit -f unlimited and {again}")


def _too_many_files(number: int, path: Path | None, again: str) -> Explanation:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    reason = f"{os.strerror(number)}: this process may open {limit} (ulimit -n)"
    return Explanation(reason, "raise the limit with ulimit -n 1024, or use fewer --workers")


def _too_many_files_of_all(number: int, path: Path | None, again: str) -> Explanation:
    return Explanation(f"{os.strerror(number)} (fs.file-max)", "end other programs, or use fewer --workers")


def _too_many_processes(number: int, path: Path | None, again: str) -> Explanation:
    reason = f"{os.strerror(number)}: no more processes and threads can be started"
    return Explanation(reason, "raise the limit (ulimit -u, or the container's), or use fewer --workers")


def _no_memory(number: int, path: Path | None, again: str) -> Explanation:
    limit = address_space_limit()
    reason = f"{os.strerror(number)}: {limit}" if limit else os.strerror(number)
    larger = "run ulimit -v unlimited, or use" if limit else "use"
    return Explanation(reason, f"{larger} fewer --workers, a smaller --batch-size or a smaller --model")


def _unusable(number: int, path: Path | None, again: str) -> Explanation | None:
    if path is None:
        if os.access(_SHARED_MEMORY, os.W_OK):
            return None
        reason = f"{os.strerror(number)}: shared memory, {_SHARED_MEMORY}, cannot be written"
        return Explanation(reason, f"make {_SHARED_MEMORY} writable, or use --workers 0")
    place = _mount_point(path)
    return Explanation(f"{os.strerror(number)}: on the file system {place}", f"make {place} usable, then {again}")


def _missing(number: int, path: Path | None, again: str) -> Explanation | None:
    """Explain a file or folder that has been removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return Explanation("the current folder has been removed", "change to a folder that exists")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return Explanation("there is no folder for temporary files", "set TMPDIR to a folder that you can write to")
    if path is None:
        return None
    gone = next(each for each in reversed((path, *path.absolute().parents)) if not each.exists())
    return Explanation(f"{gone} is missing: it has been removed or renamed", f"put it back, or {again}")


_BY_NUMBER: dict[int, Callable[[int, Path | None, str], Explanation | None]] = {
    errno.ENOSPC: _full,
    errno.EDQUOT: _full,
    errno.EFBIG: _too_large,
    errno.EMFILE: _too_many_files,
    errno.ENFILE: _too_many_files_of_all,
    errno.EAGAIN: _too_many_processes,
    errno.ENOMEM: _no_memory,
    errno.ENOENT: _missing,
    **dict.fromkeys((errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EACCES, errno.EPERM), _unusable),
}


def _lost_worker(signal: str | None, again: str) -> Explanation:
    """Explain the end of a loader worker, which torch reports with the name of the signal."""
    if signal == "Bus error":
        place = _mount_point(_SHARED_MEMORY)
        if _free_share(place) > _FULL_SHARE:
            reason = "a loader worker ended by a bus error: a file of the data has become shorter, or is unreadable"
            return Explanation(reason, "check the disk; accel_train pack verifies a packed folder and repairs it")
        reason = f"a loader worker ended by a bus error, as when shared memory is full: {_space(place)}"
        return Explanation(reason, "enlarge it (docker run --shm-size 1g), or use --workers 0")
    if signal in ("Killed", None):
        why = "was killed, perhaps because" if signal else "exited, perhaps because a file has become shorter, or"
        return Explanation(f"a loader worker {why} memory is full", f"use fewer --workers if it is, and {again}")
    reason = f"a loader worker crashed: {signal}"
    return Explanation(reason, "find the cause with --workers 0: the process itself then reads the data")


def _likely_places() -> list[Path]:
    """Return where a write may have failed whose error names no file."""
    streams = [Path(f"/proc/self/fd/{descriptor}").resolve() for descriptor in (1, 2)]
    places = [_SHARED_MEMORY, _temporary(), Path.cwd(), *streams]
    return [_mount_point(place) for place in places if place.exists()]


def _temporary() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")


def _mount_point(path: Path) -> Path:
    place = next(each for each in (path, *path.absolute().parents) if os.path.exists(each)).resolve()  # noqa: PTH110
    while not place.is_mount():
        place = place.parent
    return place


def _space(place: Path) -> str:
    found = os.statvfs(place)
    if found.f_files and not found.f_favail:
        return f"the file system {place} can hold no more files"
    free, total = (format_bytes(blocks * found.f_frsize) for blocks in (found.f_bavail, found.f_blocks))
    return f"the file system {place} has {free} of {total} free"


def _free_share(place: Path) -> float:
    """Return the share of a file system's space, or of its number of files, that is free."""
    found = os.statvfs(place)
    files = found.f_favail / found.f_files if found.f_files else 1.0
    return min(files, found.f_bavail / found.f_blocks if found.f_blocks else 1.0)
