"""Tells a process that it should stop, and why."""

import math
import multiprocessing
import os
import select
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from accel_train.system.worker_signals import leave_to


@dataclass(frozen=True)
class Reason:
    """Why a process should stop, and the exit code that says so."""

    name: str
    """A signal's, or "the death of its launcher"."""
    exit_code: int


SIGNALS = {number: Reason(number.name, 128 + number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)}
ORPHANED = Reason("the death of its launcher", 128 + signal.SIGTERM)

_LOOPS_TO_AGREE = 3
"""An update may have just begun, the one after it may be the one to agree at, and no two take the same time."""


class Interruption:
    """What a process is told from outside; made once, in its main thread.

    In training the first reason is kept, for the loop to ask for, to agree on with the other ranks and to save;
    later signals are ignored (launchers send SIGTERM after SIGINT), except that a second SIGINT ends the process.
    At all other times there is nothing to save, and any reason ends the process at once.

    Python runs handlers between two bytecodes of the main thread, which may sit in a collective for minutes, so
    they do nothing here: a thread reads the numbers that the interpreter writes as soon as a signal comes.
    """

    def __init__(
        self,
        *,
        rank: int = 0,
        launcher: int | None = None,
        poll_seconds: float = 0.5,
        agreement_seconds: float = 8.0,
        orphan_seconds: float = 5.0,
    ) -> None:
        """Begin to listen to SIGTERM, SIGUSR1 and SIGINT, and for the death of the process `launcher`.

        The process ends `agreement_seconds` after a signal, later where updates are slow, unless all have agreed to
        stop by then, since a peer that is dead or hangs would never answer; and `orphan_seconds` after its launcher,
        come what may.
        """
        self.reason: Reason | None = None
        """Why this process should stop, None as long as it should not."""
        self.loop_seconds = 0.0
        """What the loop last took from one moment at which it could have stopped to the next."""
        self._began = time.monotonic()
        self._rank = rank
        self._launcher = launcher
        self._poll_seconds = poll_seconds
        self._agreement_seconds = agreement_seconds
        self._orphan_seconds = orphan_seconds
        self._training = False
        self._agreed = False
        self._deadline = math.inf
        self._ctrl_c = 0
        self._numbers, written = os.pipe()
        os.set_blocking(written, False)
        for number in SIGNALS:
            signal.signal(number, lambda number, frame: None)
            signal.siginterrupt(number, False)  # a library that reads a file need not know of EINTR
        signal.set_wakeup_fd(written)
        os.register_at_fork(after_in_child=_leave_to_parent)
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def seconds_running(self) -> float:
        """How long ago this process began to listen: a time limit counts the start-up too."""
        return time.monotonic() - self._began

    def training_began(self) -> None:
        """From now on a reason to stop is kept for the loop, which can save."""
        self._training = True

    def acknowledged(self) -> None:
        """All ranks have agreed to stop: saving may take its time, unless the launcher is dead."""
        self._agreed = True

    def training_ended(self) -> None:
        """All is saved: from now on a reason to stop ends this process at once."""
        self._training = False

    def _watch(self) -> None:
        while True:
            if select.select([self._numbers], [], [], self._poll_seconds)[0]:
                numbers = os.read(self._numbers, 4096)
                if not numbers:  # closed by `release`
                    return
                for number in numbers:
                    if number in SIGNALS:
                        self._hear(signal.Signals(number))
            if self._launcher not in (None, os.getppid()):
                self._stop(ORPHANED, self._orphan_seconds)
            if self.reason and time.monotonic() > self._deadline and (self.reason is ORPHANED or not self._agreed):
                self._end(self.reason, f"rank {self._rank} ended by {self.reason.name} before it could save")

    def _hear(self, number: signal.Signals) -> None:
        self._ctrl_c += self._training and number == signal.SIGINT
        if self._ctrl_c > 1:
            self._end(SIGNALS[number], "ended by a second SIGINT before it could save" if self._rank == 0 else None)
        self._stop(SIGNALS[number], max(self._agreement_seconds, _LOOPS_TO_AGREE * self.loop_seconds))

    def _stop(self, reason: Reason, seconds: float) -> None:
        if not self._training:
            self._end(reason, f"ended by {reason.name}, with nothing to save" if self._rank == 0 else None)
        if self.reason is None:
            self._deadline = time.monotonic() + seconds
            self.reason = reason  # last: the loop may act on it at once

    def _end(self, reason: Reason, message: str | None) -> NoReturn:
        if message:
            with suppress(OSError):  # nobody reads any more
                os.write(2, f"{message}\n".encode())  # sys.stderr's lock may be held by the main thread
        for worker in multiprocessing.active_children():
            worker.terminate()  # of itself a loader worker notices only after seconds
        os._exit(reason.exit_code)


def release() -> None:
    """Leave signals and launcher to the caller: an Interruption of this process hears no more."""
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor >= 0:
        os.close(descriptor)


def _leave_to_parent() -> None:
    """Keep a forked loader worker from what concerns its parent, and from writing into the pipe that they share."""
    release()
    leave_to(os.getppid())
