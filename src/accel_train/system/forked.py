"""What a forked process must let go of, so that nobody takes it for its parent."""

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, however that ends; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has just ended
        os._exit(1)


def let_go_of_files(keep: int) -> None:
    """Close all files and sockets that were inherited, except the standard streams and one descriptor.

    Peers of the parent would not notice its death while its sockets are open here. Each number leads to the null device
    instead: an object that closes it later must not close another file.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - the list must be complete before anything is closed
        if int(name) > 2 and int(name) not in (keep, null):
            with suppress(OSError):  # that of the list itself
                os.fstat(int(name))
                os.dup2(null, int(name))


def redirect_streams(log: int) -> None:
    """Send what this process prints to an open file, and let it read nothing."""
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    sys.stdout = sys.stderr = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
