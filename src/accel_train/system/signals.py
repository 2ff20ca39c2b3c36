"""Tells a process that it should stop, and why."""

import math
import os
import resource
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn, Self

from accel_train.system.process import exit_at_once
from accel_train.system.worker_signals import STOP_SIGNALS, leave_to


@dataclass(frozen=True)
class Reason:
    """Why a process should stop, and the exit code that reports it."""

    name: str
    """Name of a signal, or "the death of its launcher"."""
    exit_code: int


SIGNALS = {number: Reason(number.name, 128 + number) for number in STOP_SIGNALS}
ORPHANED = Reason("the death of its launcher", 128 + signal.SIGTERM)

UNSAVED = 1
"""Exit code of a process that ends before it could save; that of a signal means that all is saved."""
TYPED = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a user types at a terminal; a second one is impatience."""
_LOOPS_TO_AGREE = 3
"""The running update, the next one, after which ranks may agree, and one more because their durations vary."""
_CPU_SECONDS_TO_SAVE = 30
"""Left of a limit of CPU time for saving; a quarter of a short limit."""
_ASLEEP_SECONDS = 5.0
"""If the thread that listens did not run for this long, its process was suspended, which counts for no limit."""


class StopSignals:
    """Listens to the signals that end a process, and for the death of the launcher.

    During training the first reason is kept: the loop polls it, agrees on it with the other ranks and saves. Later
    signals are ignored, because launchers send SIGTERM after SIGINT; but a second one that was typed at a terminal ends
    the process. Outside training there is nothing to save: any reason ends the process at once.

    Python runs signal handlers in the main thread, which a collective may block for minutes. So the handlers do
    nothing; a thread reads the signal numbers that the interpreter writes to a pipe.
    """

    def __init__(
        self,
        *,
        rank: int = 0,
        launcher: int | None = None,
        poll_seconds: float = 0.5,
        agreement_seconds: float = 8.0,
    ) -> None:
        """Set the limits; nothing is installed before :meth:`listen`.

        `launcher` is the process whose death is a reason to stop. This process ends `agreement_seconds` after a
        reason, later if updates are slow or a save is waited for, unless all ranks have agreed to stop: a dead or
        hanging rank never answers. One that is alone waits for nobody.
        """
        self.reason: Reason | None = None
        """Why this process should stop; None while it should not."""
        self.loop_seconds = 0.0
        """The longest time so far between two moments at which training can stop."""
        self._began = time.monotonic()
        self._rank = rank
        self._launcher = launcher
        self._poll_seconds = poll_seconds
        self._agreement_seconds = agreement_seconds
        self._training = False
        self._complete = False
        self._agreed = False
        self._saving = False
        self._since = math.inf
        self._alone = False
        self._typed = 0

    def listen(self) -> Self:
        """Install the handlers and start the thread; call once, in the main thread.

        A signal that was ignored before this program started stays so: `nohup` ignores SIGHUP.
        """
        pipe, written_by_python = os.pipe()
        os.set_blocking(written_by_python, False)
        _precede_kill_by_signal()
        for number in heard():
            signal.signal(number, lambda number, frame: None)
            signal.siginterrupt(number, False)  # for libraries that do not handle EINTR
        signal.set_wakeup_fd(written_by_python)
        os.register_at_fork(after_in_child=_leave_to_parent)
        threading.Thread(target=self._watch, args=[pipe], daemon=True).start()
        return self

    @property
    def seconds_running(self) -> float:
        """Seconds since this object was made: a time limit includes the start-up."""
        return time.monotonic() - self._began

    def training_began(self, *, alone: bool = False) -> None:
        """From now on, keep a reason to stop for the loop, which can save; `alone`: no other rank must agree."""
        self._alone = alone
        self._training = True

    def acknowledged(self) -> None:
        """Record that all ranks have agreed to stop: saving has no time limit."""
        self._agreed = True

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Suspend the time limit while all ranks wait for a save; one that hangs then is the watchdog's."""
        self._saving = True
        try:
            yield
        finally:
            self._since = time.monotonic()  # set first: the thread may check the limit at once
            self._saving = False

    def training_ended(self, *, complete: bool = False) -> None:
        """From now on, end this process at once: everything is saved; with exit code 0 if the run is complete."""
        self._complete = complete
        self._training = False  # set last: the thread may act on it at once

    def _watch(self, pipe: int) -> None:
        last = time.monotonic()
        while True:
            if select.select([pipe], [], [], self._poll_seconds)[0]:
                numbers = os.read(pipe, 4096)
                if not numbers:  # closed by `release`
                    return
                for number in numbers:
                    if number in SIGNALS:
                        self._receive(signal.Signals(number))
            if self._launcher not in (None, os.getppid()):
                self._stop(ORPHANED)
            now = time.monotonic()
            if now - last > _ASLEEP_SECONDS:
                self._since += now - last
            last = now
            unlimited = self._alone or self._agreed or self._saving
            if self.reason and not unlimited and now - self._since > self._limit():
                self._end(UNSAVED, f"rank {self._rank} ended by {self.reason.name} before it could save")

    def _receive(self, number: signal.Signals) -> None:
        self._typed += self._training and number in TYPED
        if self._typed > 1:
            said = f"ended by a second {number.name} before it could save" if self._rank == 0 else None
            self._end(SIGNALS[number].exit_code, said)
        self._stop(SIGNALS[number])

    def _stop(self, reason: Reason) -> None:
        if not self._training:
            what = "after the run was complete" if self._complete else "with nothing to save"
            said = f"ended by {reason.name}, {what}" if self._rank == 0 else None
            self._end(0 if self._complete else reason.exit_code, said)
        if self.reason is None:
            self._since = time.monotonic()
            self.reason = reason  # set last: the loop may act on it at once

    def _limit(self) -> float:
        """Return the seconds that ranks have to agree."""
        return max(self._agreement_seconds, _LOOPS_TO_AGREE * self.loop_seconds)

    def _end(self, exit_code: int, message: str | None) -> NoReturn:
        if message:
            with suppress(OSError):  # stderr may be closed
                os.write(2, f"{message}\n".encode())  # the main thread may hold sys.stderr's lock
        exit_at_once(exit_code)


def heard() -> list[signal.Signals]:
    """Return the signals that end this process and were not ignored before it started."""
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _precede_kill_by_signal() -> None:
    """Have SIGXCPU sent before the kernel kills at the hard limit of CPU time: `ulimit -t` sets both limits alike."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        earlier = hard - min(_CPU_SECONDS_TO_SAVE, hard // 4)
        asked = hard if soft == resource.RLIM_INFINITY else soft
        resource.setrlimit(resource.RLIMIT_CPU, (min(asked, earlier), hard))


def release() -> None:
    """Stop this process's StopSignals from listening, so that the caller can handle signals and the launcher."""
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor >= 0:
        os.close(descriptor)


def _leave_to_parent() -> None:
    """Leave signals to the parent in a forked loader worker, and write nothing into the pipe that they share."""
    release()
    leave_to(os.getppid())
