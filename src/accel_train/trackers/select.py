"""The logger that starts the trackers of a run, in the process of rank 0."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from accel_train.config.trackers import chosen
from accel_train.events import EpochEnd, Event, Progress, RunEnded, RunStarted
from accel_train.history.files import METRICS, TRACKED_AS
from accel_train.loggers.select import Logger, Process, Row
from accel_train.system.atomic_files import write_file
from accel_train.system.regular_files import read_regular

_SECONDS_AFTER_END, _SECONDS_AFTER_STOP = 120.0, 12.0
"""How long a run waits for its trackers; a scheduler kills a run that it has stopped soon after."""


def _open(started: RunStarted, process: Process) -> AbstractContextManager[Logger]:
    names = chosen(started.config.get("tracker"))
    return _trackers(names, started) if names else nullcontext(lambda event: None)


TRACKERS_ROW = Row(lambda process: process.rank == 0, _open)
"""The logger of all trackers; it comes after that of metrics.jsonl, which they read."""


@contextmanager
def _trackers(names: tuple[str, ...], started: RunStarted) -> Iterator[Logger]:
    from accel_train.trackers.base import TrackedRun
    from accel_train.trackers.follow import End
    from accel_train.trackers.process import TrackerProcess

    folder, project = Path(started.run_folder).absolute(), started.config.get("tracker_project")
    run = TrackedRun(folder, _identity(folder), project, started.config)
    processes, complete = [TrackerProcess(name, run) for name in names], False

    def log(event: Event) -> None:
        nonlocal complete
        if isinstance(event, Progress | EpochEnd | RunEnded):
            complete = isinstance(event, RunEnded)
            for each in processes:
                each.check()

    try:
        yield log
    finally:
        with TemporaryDirectory() as pictures:
            end = End(complete, _pictures(folder, Path(pictures)) if complete else {})
            for each in processes:
                each.end(end)
            for each in processes:
                each.wait(_SECONDS_AFTER_END if complete else _SECONDS_AFTER_STOP)


def _pictures(run_folder: Path, folder: Path) -> dict[str, Path]:
    """Draw what trackers show of a run that is complete; it is complete without, too."""
    from accel_train.trackers.pictures import draw_pictures
    from accel_train.trackers.process import warn

    try:
        return draw_pictures(run_folder, folder)
    except Exception as error:
        warn(f"trackers get no pictures: {error}")
        return {}


def _identity(folder: Path) -> str:
    """Return what services know a run by: a new one if it starts from scratch, for it may be another run."""
    path, resumed = folder / TRACKED_AS, (folder / METRICS).stat().st_size > 0
    try:
        known = read_regular(path).decode("ascii").strip() if resumed else ""
    except (OSError, ValueError):
        known = ""
    if not known.isalnum():
        known = uuid4().hex[:16]
        write_file(path, f"{known}\n".encode())
    return known
