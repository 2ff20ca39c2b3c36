"""Lets a forked program start as if a shell had started it after some commands."""

import ctypes
import os
import resource
import socket
import subprocess
from collections.abc import Mapping

_NEW_NAMESPACE, _RECURSIVE, _PRIVATE = 0x00020000, 0x4000, 0x40000
"""CLONE_NEWNS, MS_REC and MS_PRIVATE (unshare(2), mount(2))."""
_ANSWER = b"\0\n"
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def own_mounts() -> None:
    """Give this process mounts that no other sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    calls = (lambda: libc.unshare(_NEW_NAMESPACE), lambda: libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None))
    for call in calls:
        assert call() == 0, os.strerror(ctypes.get_errno())


def after(commands: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Carry out commands of a shell, take over its folder, limits, stdout and stderr, and return its environment.

    What it mounts is seen by this process only. If a command fails, this process ends with its exit code.
    """
    own_mounts()
    own, its = socket.socketpair()
    words = ["sh", "-c", f"{commands} && (env -0; echo) >&0 && read _"]
    with subprocess.Popen(words, env=environment, stdin=its) as shell, own:
        its.close()
        answer = b""
        while not answer.endswith(_ANSWER):
            if not (more := own.recv(65536)):
                os._exit(shell.wait())
            answer += more
        os.chdir(f"/proc/{shell.pid}/cwd")
        for stream in (1, 2):
            opened = os.open(f"/proc/{shell.pid}/fd/{stream}", os.O_WRONLY | os.O_APPEND)
            os.dup2(opened, stream)
            os.close(opened)
        limits = {limit: resource.prlimit(shell.pid, limit) for limit in _LIMITS}
    for limit, values in limits.items():
        resource.setrlimit(limit, values)
    variables = answer.removesuffix(_ANSWER).split(b"\0")
    return dict(os.fsdecode(variable).split("=", 1) for variable in variables)
