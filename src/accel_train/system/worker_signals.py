"""Leaves signals to the process that a loader worker works for, which needs it until the run is saved."""

import multiprocessing
import os
import signal
import sys
import threading


def leave_to(parent: int) -> None:
    """Be in no group to which a terminal or a scheduler sends, and ignore what is sent to every process.

    SIGTERM counts if the parent has sent it (on Linux; elsewhere no process can tell).
    """
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_told_by, args=[parent], daemon=True).start()


def serve_parent(worker_id: int) -> None:
    """Do so in a loader worker that was not forked from its parent."""
    parent = multiprocessing.parent_process()
    if parent and parent.pid and parent.pid != os.getppid():
        leave_to(parent.pid)


def _end_when_told_by(parent: int) -> None:
    assert sys.platform == "linux"
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)
