"""Forks Python programs from a process that has imported torch: importing it takes seconds, a fork milliseconds.

A forked program gets the arguments, directory, environment and streams of a started one, and so do the ranks that it
starts. What the interpreter or torch reads only at its start differs (PYTHONIOENCODING, PYTHONUNBUFFERED, -W,
OMP_NUM_THREADS, which is 1): tests of those start a real program.
"""

import ctypes
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

from helpers import shells

TESTS = Path(__file__).parents[1]
IMPORTED = (
    *(
        "accel_train.cli.app",
        "accel_train.cli.train",
        "accel_train.run.session",
        "accel_train.run.evaluate",
        "accel_train.loggers.select",
    ),
    *("accel_train.cli.train", "accel_train.cli.evaluate", "helpers.warm"),
    *("torch.distributed.fsdp", "torch.distributed.checkpoint", "torchvision", "helpers.preloaded"),
)
"""Modules that the parent of all forks imports."""
_MS_BIND = 0x1000
_SECONDS_FOR_THREADS = 1.0
"""Time for a thread that is ending to end before a fork."""
_OF_TORCHRUN = {"pt_elastic", "pt_tcpstore_uv"}
"""Threads that torchrun's agent has when it starts ranks (torch 2.14)."""


@dataclass(frozen=True)
class Place:
    """A host (helpers/hosts.py): a process in its namespaces, and its /etc/hosts."""

    pid: int
    hosts_file: Path


@cache
def context() -> ForkServerContext:
    """Return the context whose processes are forked from one that has imported torch and has one thread."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(list(IMPORTED))
    before = dict(os.environ)
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join((str(TESTS), before.get("PYTHONPATH", "")))}
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ |= before
    first = forks.Process(target=gc.collect)  # it ends when all is imported: no time limit of a test includes that
    first.start()
    first.join()
    return forks


def start(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    streams: Path,
    forked: bool = True,
    place: Place | None = None,
    after: str = "",
) -> BaseProcess:
    """Start a command in its own session and `folder`; its output goes to the files `out` and `err` in `streams`.

    It reads the file `in` there, if there is one. A forked command must begin with `sys.executable`, and may come
    `after` commands of a shell. Without `forked` the command is executed. It may run in another `place` than this one.
    """
    given = (list(words), folder, dict(environment), streams, forked, place, after)
    process = context().Process(target=_start, args=given)
    process.start()
    return process


def _start(
    words: list[str],
    folder: Path,
    environment: dict[str, str],
    streams: Path,
    forked: bool,
    place: Place | None,
    after: str,
) -> NoReturn:
    os.setsid()
    if place:
        _enter(place)
    os.chdir(folder)
    read = streams / "in"
    opened = [os.open(read, os.O_RDWR) if read.exists() else os.open(os.devnull, os.O_RDONLY)]
    for path in (streams / "out", streams / "err"):
        access = os.O_RDWR if path.is_char_device() else os.O_WRONLY  # a terminal is that of those who can read it
        opened.append(os.open(path, access | os.O_CREAT | os.O_APPEND, 0o600))
    _reset(opened)
    if forked:
        assert words[0] == sys.executable
        if after:
            environment = shells.after(after, environment)
        _run_python(words[1:], environment)
    os.execvpe(words[0], words, environment)


def _enter(place: Place) -> None:
    """Join the network and the name of another process, and see its /etc/hosts."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in ("net", "uts"):
        with Path(f"/proc/{place.pid}/ns/{kind}").open("rb") as namespace:
            assert libc.setns(namespace.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
    shells.own_mounts()
    mounted = libc.mount(bytes(place.hosts_file), b"/etc/hosts", None, _MS_BIND, None)
    assert mounted == 0, os.strerror(ctypes.get_errno())


def _reset(streams: Sequence[int]) -> None:
    """Replace the standard streams by these descriptors, except -1, and reset the signal handlers."""
    for target, descriptor in enumerate(streams):
        if descriptor >= 0:
            os.dup2(descriptor, target)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _run_python(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Do what `python WORDS` does, and end this process."""
    try:
        _prepare(environment)
        _show(words, environment)
        option, words = (words[0], words[1:]) if words[0] in ("-P", "-u") else ("", words)
        first, *rest = words
        _open_streams(unbuffered=option == "-u")
        if first == "-m" and option != "-P":
            with suppress(FileNotFoundError):  # the folder has been removed
                sys.path.insert(0, str(Path.cwd()))
        if first == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv = ["-c", *rest[1:]]
            sys.path.insert(0, "")
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = list(words)
            sys.path.insert(0, str(Path(first).parent))
            runpy.run_path(first, run_name="__main__")
        code: Any = 0
    except SystemExit as ended:
        code = ended.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader has gone
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _open_streams(*, unbuffered: bool) -> None:
    """Make the standard streams for what the descriptors are now: a terminal, a pipe, a file."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", newline="\n", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    for descriptor, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        stream = open(descriptor, "w", encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=descriptor == 2 or stream.isatty(), write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _prepare(environment: Mapping[str, str]) -> None:
    """Set what an interpreter, or an import, takes from the environment."""
    os.environ.clear()
    os.environ |= environment
    sys.path[:0] = [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    warnings.resetwarnings()
    if environment.get("PYTHONWARNINGS") == "default":
        warnings.simplefilter("default")
    multiprocessing.set_start_method(None, force=True)  # inherited from the fork server: "forkserver"
    sys.modules["accel_train.distributed.environment"]._PARENT = os.getppid()  # type: ignore[attr-defined]
    for name in [name for name in sys.modules if name.startswith("accelerate.commands")]:
        del sys.modules[name]  # it finds the wizard's file when it is imported
    tempfile.tempdir = None
    os.register_at_fork = FORK_HOOKS.register
    subprocess.Popen._execute_child = _execute_child  # type: ignore[attr-defined]


def _show(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Overwrite what this process was started with, by which others know it (/proc/PID/cmdline, /proc/PID/environ).

    What is too long is cut off, so RANK comes first. For the places in memory, see proc(5).
    """
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    by_rank = sorted(environment.items(), key=lambda item: item[0] != "RANK")
    for at, texts in ((45, [sys.executable, *words]), (47, [f"{name}={value}" for name, value in by_rank])):
        start, end = map(int, fields[at : at + 2])
        shown = b"".join(os.fsencode(f"{text}\0") for text in texts)[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, shown, len(shown))


class _ForkHooks:
    """The at-fork hooks of this program; a program that it starts must not run them, though it is forked."""

    def __init__(self) -> None:
        self._hooks: list[Callable[[], object]] = []
        self._register = os.register_at_fork

    def register(self, **hooks: Callable[[], object]) -> None:
        self._hooks += hooks.values()
        self._register(**{when: partial(self._call, hook) for when, hook in hooks.items()})

    @contextmanager
    def disabled(self) -> Iterator[None]:
        hooks, self._hooks = self._hooks, []
        yield
        self._hooks = hooks

    def clear(self) -> None:
        self._hooks = []

    def _call(self, hook: Callable[[], object]) -> None:
        if hook in self._hooks:
            hook()


FORK_HOOKS = _ForkHooks()


_EXECUTE = subprocess.Popen._execute_child  # type: ignore[attr-defined]


def _execute_child(self: Any, args: Any, *more: Any) -> None:
    """Do what Popen does, but fork this process where that would start another Python."""
    if not _can_fork(args):
        _EXECUTE(self, args, *more)
        return
    _, _, _, _, cwd, env, _, _, _, *pipes, _, _, _, _, _, new_session, group = more
    in_read, in_write, out_read, out_write, err_read, err_write = pipes
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with FORK_HOOKS.disabled():
        self.pid = os.fork()
    if self.pid == 0:
        FORK_HOOKS.clear()
        if new_session:
            os.setsid()
        if group >= 0:
            os.setpgid(0, group)
        os.chdir(cwd or ".")
        _reset((in_read, out_write, err_write))
        _leave_sockets()
        _run_python(args[1:], os.environ.copy() if env is None else env)
    self._child_created = True
    self._close_pipe_fds(in_read, in_write, out_read, out_write, err_read, err_write)


def _can_fork(args: Any) -> bool:
    """Return whether a command starts this Python without options but -P or -u, and this process can be forked.

    Threads that are ending are waited for. Those of torchrun's agent, which serve its store and its rendezvous, hold
    no lock that its ranks use.
    """
    if args[0] != sys.executable or not (args[1] in ("-m", "-c", "-P", "-u") or str(args[1]).endswith(".py")):
        return False
    deadline = time.monotonic() + _SECONDS_FOR_THREADS
    while set(_threads()) - _OF_TORCHRUN:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _threads() -> list[str]:
    """Return the names of the other threads of this process."""
    own = str(os.getpid())
    found = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            found += [(thread / "comm").read_text().strip()] * (thread.name != own)
    return found


def _leave_sockets() -> None:
    """Replace the sockets of the process that was forked, which a started program would not have, by /dev/null."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of iterdir
            if descriptor.readlink().name.startswith("socket:"):
                os.dup2(nothing, int(descriptor.name))
    os.close(nothing)
