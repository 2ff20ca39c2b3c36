"""Runs a tracker in a process of its own: whatever it does, training neither waits for it nor fails with it."""

import logging
import multiprocessing
import os
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from accel_train.config.import_string import import_object
from accel_train.config.trackers import TRACKERS
from accel_train.history.files import LOGS
from accel_train.loggers.run_files import open_to_append
from accel_train.loggers.text import printable, quoted
from accel_train.system.forked import end_with_parent, let_go_of_files, redirect_streams
from accel_train.system.worker_signals import leave_to
from accel_train.trackers.base import TrackedRun, Tracker
from accel_train.trackers.follow import End, follow

_logger = logging.getLogger("accel_train")
_SECONDS_BETWEEN_READS = 0.5
_SECONDS_IN_SILENCE = 4.0
"""At the end of a run, before the user is told what it waits for."""
_MOST_CHARACTERS = 300
"""Of what a library says of its failure."""
_NICENESS = 10
"""Training goes first where cores are scarce."""


class TrackerProcess:
    """The process of one tracker. It is forked, like a loader worker, and ends with this process."""

    def __init__(self, name: str, run: TrackedRun) -> None:
        self._name, self._run = name, run
        self._over = False
        forks = multiprocessing.get_context("fork")
        self._connection, theirs = forks.Pipe()
        self._process = forks.Process(target=_run, args=(name, run, theirs, os.getpid()), daemon=True)
        try:
            self._process.start()
        except OSError as error:
            self._fail(str(error))
        theirs.close()

    def check(self) -> None:
        """Warn, once, if the tracker has failed; never waits."""
        if not self._over and self._connection.poll():
            self._receive()

    def end(self, end: End) -> None:
        """Tell the tracker that no more rows will come."""
        self.check()
        if not self._over:
            with suppress(OSError):  # it has just ended: `wait` finds out why
                self._connection.send(end)

    def wait(self, seconds: float) -> None:
        """Wait until the tracker has stored all, at most so long, and end it."""
        if not self._over and not self._connection.poll(_SECONDS_IN_SILENCE):
            warn(f"--tracker {self._name} has not stored all yet: waiting for it, at most {seconds:.0f} s")
        if not self._over and self._connection.poll(seconds):
            self._receive()
        if not self._over:
            self._fail(f"it has not taken all within {seconds:.0f} s")
        if self._process.pid:
            self._process.kill()
            self._process.join()
        self._connection.close()

    def _receive(self) -> None:
        try:
            problem = str(self._connection.recv())
        except (EOFError, OSError):
            self._process.join()
            problem = f"its process has ended with code {self._process.exitcode}"
        self._over = True
        if problem:
            self._fail(problem)

    def _fail(self, problem: str) -> None:
        self._over = True
        again = f"accel_train train --resume {quoted(self._run.folder)} --tracker {self._name}"
        warn(f"--tracker {self._name} has failed, the run continues: {problem}; `{again}` sends it what is missing")


def warn(text: str) -> None:
    """Log a warning on one line, which a library may have broken."""
    _logger.warning("%s", printable(" ".join(text.split())))


def _run(name: str, run: TrackedRun, connection: Connection, parent: int) -> None:
    """Follow a run until its process says that it is over, and report what has failed: the main function."""
    end_with_parent(parent)
    leave_to(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch watches its loader workers, which are not of this process
    let_go_of_files(keep=connection.fileno())
    _log_to(run.folder / LOGS / f"tracker_{name}.log")
    with suppress(OSError):
        os.nice(_NICENESS)

    def wait() -> End | None:
        return connection.recv() if connection.poll(_SECONDS_BETWEEN_READS) else None

    problem = ""
    try:
        tracker: Tracker = import_object(TRACKERS[name].make)()
        follow(tracker, run, wait)
    except EOFError:  # the run was killed
        os._exit(1)
    except BaseException as error:  # libraries raise SystemExit too
        traceback.print_exc()
        problem = f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS]
    with suppress(OSError):
        connection.send(problem)
    sys.stdout.flush()
    os._exit(0)


def _log_to(path: Path) -> None:
    """Send what libraries print and log to a file; nothing may reach the terminal, which belongs to the run."""
    log = Path(os.devnull)
    with suppress(Exception):  # the disk may be full, or the file no file
        open_to_append(path).close()
        log = path
    with log.open("a", encoding="utf-8") as file:
        redirect_streams(file.fileno())
    logging.basicConfig(handlers=[logging.StreamHandler(sys.stderr)], level=logging.WARNING, force=True)
