"""Leaves signals to the process that a loader worker works for, which needs it until the run is saved."""

import multiprocessing
import os
import signal
import sys
import threading


def leave_to_parent() -> None:
    """Be in no group to which a terminal or a scheduler sends, and ignore what is sent to every process."""
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the parent ends it
    for number in (signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def serve_parent(worker_id: int) -> None:
    """Do so in a loader worker, however it was started, and end by SIGTERM only if its parent has sent it."""
    leave_to_parent()
    parent = multiprocessing.parent_process()
    if sys.platform == "linux" and parent:  # elsewhere no process can tell who sent a signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_told_by, args=[parent.pid], daemon=True).start()


def _end_when_told_by(parent: int | None) -> None:
    assert sys.platform == "linux"
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)
