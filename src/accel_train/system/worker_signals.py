"""Signals of loader workers: they ignore those meant for their parent, which ignores their end once it stops."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STOP_SIGNALS = tuple(
    signal.Signals[name]
    for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGALRM", "SIGPWR")
    if hasattr(signal, name)
)
"""Signals by which terminals, schedulers and limits end a process. Profilers use SIGPROF and SIGVTALRM."""


def leave_to(parent: int) -> None:
    """Leave the process group that terminals and schedulers signal, and ignore signals sent to every process.

    SIGTERM is obeyed if the parent sent it. Only Linux reports the sender; elsewhere every SIGTERM is obeyed.
    SIGXCPU is passed on: this process will be killed at its own limit of CPU time.
    """
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in STOP_SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, lambda number, frame: _pass_on(number, parent))
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_exit_on_sigterm_of, args=[parent], daemon=True).start()


def serve_parent(worker_id: int) -> None:
    """Leave signals to the parent in a loader worker that a fork server started; a loader's `worker_init_fn`."""
    parent = multiprocessing.parent_process()
    if parent and parent.pid and parent.pid != os.getppid():
        leave_to(parent.pid)


@contextmanager
def ended_workers_ignored() -> Iterator[None]:
    """Ignore loader workers that end meanwhile: torch would raise an error, in the middle of the last save."""
    if threading.current_thread() is not threading.main_thread():  # torch raises errors only there
        yield
        return
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, handler or signal.SIG_DFL)


def _pass_on(number: int, parent: int) -> None:
    with suppress(ProcessLookupError):  # it has ended, and this process is about to
        os.kill(parent, number)


def _exit_on_sigterm_of(parent: int) -> None:
    assert sys.platform == "linux"
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)
