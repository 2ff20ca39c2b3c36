"""Locks the folder of a run before it is decided what the run does there, so that no other run changes it meanwhile."""

from collections.abc import Callable
from pathlib import Path

from accel_train.checkpoints import run_folder
from accel_train.run.resume_point import ResumePoint, find_resume_point
from accel_train.system.folder_lock import FolderLock


class Claim:
    """Holds the folder of a run in one process; empty in all others.

    `seconds` to wait for another holder: a killed predecessor may hold it for a while, on another machine.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._lock: FolderLock | None = None
        self._made: list[Path] = []

    def find_resume_point(
        self, output: Path | None, resume: str, name: str, same: Callable[[ResumePoint], bool]
    ) -> ResumePoint:
        """Lock the folder that :func:`find_resume_point` names, and return what is found there once it is locked.

        Raises:
            UserError: there is nothing to resume from, the folder cannot be used, or another run holds it.
        """
        while True:
            point = find_resume_point(output, resume, name, same)
            is_numbered = output is None and point.stored is None
            missing = [path for path in (point.folder, *point.folder.parents) if not path.exists()]
            try:
                run_folder.make(point.folder, new=is_numbered)
            except FileExistsError:  # another run has taken this number
                continue
            lock = FolderLock(point.folder, self._seconds)
            lock.acquire()
            self._lock, self._made = lock, missing
            found = point if is_numbered else find_resume_point(output, resume, name, same)
            if found.folder == point.folder:
                return found
            self.release()  # the run there has finished meanwhile

    def release(self) -> None:
        """Let go of the folder; remove it if the run has made it and not begun."""
        if self._made and not run_folder.contains_run(self._made[0]):
            run_folder.remove_empty(*self._made)
        if self._lock:
            self._lock.release()
        self._lock, self._made = None, []
