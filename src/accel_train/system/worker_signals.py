"""Makes loader workers ignore signals that are meant for their parent, which needs them until the run is saved."""

import multiprocessing
import os
import signal
import sys
import threading

STOP_SIGNALS = tuple(
    signal.Signals[name]
    for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGALRM", "SIGPWR")
    if hasattr(signal, name)
)
"""Signals by which terminals, schedulers and limits end a process. Profilers use SIGPROF and SIGVTALRM."""


def leave_to(parent: int) -> None:
    """Leave the process group that terminals and schedulers signal, and ignore signals sent to every process.

    SIGTERM is obeyed if the parent sent it. Only Linux reports the sender; elsewhere every SIGTERM is obeyed.
    """
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in STOP_SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_exit_on_sigterm_of, args=[parent], daemon=True).start()


def serve_parent(worker_id: int) -> None:
    """Leave signals to the parent in a loader worker that a fork server started; a loader's `worker_init_fn`."""
    parent = multiprocessing.parent_process()
    if parent and parent.pid and parent.pid != os.getppid():
        leave_to(parent.pid)


def _exit_on_sigterm_of(parent: int) -> None:
    assert sys.platform == "linux"
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)
