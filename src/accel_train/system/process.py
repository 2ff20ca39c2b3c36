"""Avoids what torch and OpenMP cost a process at its start, at its end and while it waits."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_SPINS = "3000"


def limit_spinning() -> None:
    """Let OpenMP threads that wait for one another sleep sooner; before torch is imported, unless the user chose.

    By default they spin for 300,000 turns, and if another program uses one of the CPUs, a spinning thread takes the
    time of the one that it waits for. This many turns cost nothing on a quiet machine (see benchmarks/README.md).
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = _SPINS


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable the garbage collector while importing, then freeze the imported objects.

    Collections take a tenth of the time of importing torch. Later they would pause the loop, and make forked loader
    workers copy the memory of these objects.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def exit_at_once(code: int) -> NoReturn:
    """End this process and its loader workers without the interpreter's shutdown.

    Shutting down torch takes more than a second and may abort (2.14).
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch would raise an error for each worker that ends
    for worker in multiprocessing.active_children():
        worker.terminate()  # a loader worker takes seconds to notice that its parent has ended
    os._exit(code)
