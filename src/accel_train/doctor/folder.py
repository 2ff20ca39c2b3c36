"""Checks the file system of the run folder: space, rename, fsync, locks, and whether all hosts share it."""

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from accel_train.checkpoints.run_folder import check_destination
from accel_train.doctor.finding import Finding
from accel_train.doctor.steps import Steps
from accel_train.errors import UserError
from accel_train.history.files import LOCK
from accel_train.loggers.text import quoted
from accel_train.system.atomic_files import sync
from accel_train.system.folder_lock import FolderLock, is_locked
from accel_train.system.os_errors import format_bytes
from accel_train.system.time_limit import within

_PREFIX = ".accel_train_doctor_"
_LEAST_FREE = 256 * 2**20
"""Bytes: a checkpoint of a ResNet-50 with its optimizer has 200 MB."""
_SECONDS_TO_APPEAR = 10.0
"""In which a new file appears on other hosts: NFS looks for changes of a folder every 3 s or more."""
_POLL_SECONDS = 0.1
_CHECK = "run folder"


class Probe:
    """A folder of this process beside the run folder, on the same file system."""

    def __init__(self, output: Path | None) -> None:
        self.name = _PREFIX + uuid.uuid4().hex[:12]
        self.place = (output or Path("runs")).absolute()
        """The run folder; once it is examined, the folder that holds this one."""
        self._output = output
        self._lock: FolderLock | None = None

    @property
    def folder(self) -> Path:
        return self.place / self.name

    def examine(self) -> Iterator[Finding]:
        """Make the folder and yield what does not work in it; hold its lock from then on."""
        self.place = place_of(self.place)
        try:
            if self._output:
                check_destination(self._output)
            free = shutil.disk_usage(self.place).free
            self.folder.mkdir()
        except UserError as error:
            yield Finding.of(_CHECK, error)
            return
        except OSError as error:
            yield _cannot("write to", self.place, error)
            return
        if free < _LEAST_FREE:
            message = f"{quoted(self.place)} has {format_bytes(free)} free: a few checkpoints fill it"
            yield Finding(_CHECK, message, "free some space there, or give another --output")
        yield from self._operations()
        lock = FolderLock(self.folder, 0)
        try:
            lock.acquire()
            self._lock = lock
        except UserError as error:
            yield Finding.of(_CHECK, error)

    def _operations(self) -> Iterator[Finding]:
        new, final = self.folder / "new", self.folder / "final"
        steps: dict[str, Callable[[], object]] = {
            "write a file in": lambda: new.write_bytes(b"content"),
            "fsync a file in": lambda: sync(new),
            "rename a file in": lambda: new.replace(final),
            "fsync the folder": lambda: sync(self.folder),
            "read a file in": final.read_bytes,
        }
        for doing, step in steps.items():
            try:
                step()
            except OSError as error:
                yield _cannot(doing, self.place, error)
                return

    def remove(self) -> None:
        """Remove the folder."""
        if self._lock:
            self._lock.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def place_of(folder: Path) -> Path:
    """Return the folder to examine for a run folder: the next one above it that exists, or it itself if mounted."""
    if folder.is_mount():
        return folder
    return next(path for path in folder.parents if path.is_dir())


def examine_folder(output: Path | None, hosts: Sequence[str], steps: Steps) -> str:
    """Collective: examine the file system of the run folder on all processes; return where."""
    probe = Probe(output)
    rank = steps.exchange.rank
    try:
        made = steps.take(_CHECK, lambda: [probe.name, *(asdict(finding) for finding in probe.examine())])
        for each, (_, *found) in enumerate(made):
            steps.findings += [replace(Finding.read(one), ranks=(each,)) for one in found]
        if len(made) > 1 and len(made[0]) == 1:  # rank 0 has found nothing
            seconds = _SECONDS_TO_APPEAR if hosts[rank] != hosts[0] else 0.0
            views = steps.take(_CHECK, lambda: rank == 0 or _sees(probe.place / made[0][0], seconds))
            steps.findings += _differences(views, probe.place)
    finally:
        with suppress(TimeoutError):
            within(steps.seconds, probe.remove)
    return str(probe.place)


_NOT_SEEN, _NOT_LOCKED = "not seen", "not locked"


def _sees(probe: Path, seconds: float) -> bool | str:
    """Return True if the probe of rank 0 appears here and its lock holds, else what is wrong."""
    deadline = time.monotonic() + seconds
    while not (probe / LOCK).exists():
        if time.monotonic() > deadline:
            return _NOT_SEEN
        time.sleep(_POLL_SECONDS)
    return is_locked(probe) or _NOT_LOCKED


def _differences(views: Sequence[bool | str], place: Path) -> Iterator[Finding]:
    """Yield the processes that do not see what rank 0 has made, or not its lock."""
    for rank, view in enumerate(views):
        if view == _NOT_SEEN:
            yield Finding(
                _CHECK,
                f"does not see the files of rank 0 in {quoted(place)}",
                "mount one file system there on all hosts, or give an --output on a shared one",
                ranks=(rank,),
            )
        elif view == _NOT_LOCKED:
            yield Finding(
                _CHECK,
                f"locks of rank 0 in {quoted(place)} do not hold here, so two runs may write to one folder",
                "mount it with locks (NFS without nolock and local_lock), or give another --output",
                ranks=(rank,),
            )


def _cannot(doing: str, place: Path, error: OSError) -> Finding:
    reason = error.strerror or str(error)
    return Finding(
        _CHECK,
        f"cannot {doing} {quoted(place)}: {reason}",
        "give an --output on another file system, or repair it",
    )
