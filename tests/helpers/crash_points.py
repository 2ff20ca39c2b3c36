"""Traces the system calls by which processes change files, on all threads, and kills one right before such a call."""

import ctypes
import os
import signal
import struct
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CALLS = {
    **{1: ("write", "f"), 18: ("pwrite64", "f"), 20: ("writev", "f"), 296: ("pwritev", "f"), 328: ("pwritev2", "f")},
    **{40: ("sendfile", "f"), 275: ("splice", "--f"), 326: ("copy_file_range", "--f"), 285: ("fallocate", "f")},
    **{76: ("truncate", "p"), 77: ("ftruncate", "f"), 74: ("fsync", "f"), 75: ("fdatasync", "f")},
    **{2: ("open", "p"), 85: ("creat", "p"), 257: ("openat", "dp"), 83: ("mkdir", "p"), 258: ("mkdirat", "dp")},
    **{82: ("rename", "pp"), 264: ("renameat", "dpdp"), 316: ("renameat2", "dpdp")},
    **{86: ("link", "pp"), 265: ("linkat", "dpdp"), 88: ("symlink", "-p"), 266: ("symlinkat", "-dp")},
    **{87: ("unlink", "p"), 263: ("unlinkat", "dp"), 84: ("rmdir", "p")},
}
"""Name and kinds of the first arguments of a call, by its number on x86-64.

Kinds: (f) descriptor, (p) path, (d) descriptor of the folder that the next path is relative to, (-) ignored.
"""
# As in linux/ptrace.h, linux/wait.h, linux/audit.h and linux/fcntl.h.
_TRACE_ME, _CONTINUE, _SET_OPTIONS, _GET_CALL = 0, 7, 0x4200, 0x420E
_FOLLOW_THREADS, _STOP_AT_CALLS, _DIE_WITH_TRACER = 0x8, 0x80, 0x100000
_AT_CALL = signal.SIGTRAP | 7 << 8
_OF_ALL_THREADS = 0x40000000
_X86_64 = 0xC000003E
_WORKING_FOLDER = 2**32 - 100
_LONGEST_PATH = 4096
_OPENING = ("open", "openat")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]


@dataclass(frozen=True)
class Call:
    """A call that changes or syncs files."""

    process: int
    """Index of the process."""
    name: str
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Death:
    """When and which process is killed."""

    process: int
    before: int
    """Index of its first call that is prevented."""
    alone: bool = False
    """True if the other processes survive; else they are killed too."""


def follow(
    works: Sequence[Callable[[], None]], folder: Path, death: Death | None = None, seconds: int = 60
) -> tuple[list[Call], list[int]]:
    """Do each work in a forked process; return their calls for paths in a folder, and their exit codes.

    After `seconds` all are killed, the calling process included.
    """
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork has only one thread"
    signal.alarm(seconds)
    processes = [_fork(work) for work in works]
    calls: list[Call] = []
    codes: dict[int, int] = {}
    while not codes.keys() >= set(processes):
        thread, status = os.waitpid(-1, _OF_ALL_THREADS)
        if not os.WIFSTOPPED(status):
            codes[thread] = os.waitstatus_to_exitcode(status)
            continue
        with suppress(ProcessLookupError):  # another thread has ended the process
            call = _call(thread, processes, folder) if status >> 8 == _AT_CALL else None
            number = sum(call is not None and earlier.process == call.process for earlier in calls)
            if call and death and (call.process, number) == (death.process, death.before):
                _kill(processes, death)
            else:
                calls += [call] if call else []
                _resume(thread, status)
    signal.alarm(0)
    return calls, [codes[process] for process in processes]


class _StoppedAt(ctypes.Structure):
    """The first fields of ptrace_syscall_info, which are the same on all machines (Linux 5.3 or newer)."""

    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("architecture", ctypes.c_uint32),
        ("pointers", ctypes.c_uint64 * 2),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


def _fork(work: Callable[[], None]) -> int:
    process = os.fork()
    if process == 0:
        try:
            _trace(_TRACE_ME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            _stop_at_calls()
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.waitpid(process, 0)  # it has stopped
    _trace(_SET_OPTIONS, process, data=_FOLLOW_THREADS | _STOP_AT_CALLS | _DIE_WITH_TRACER)
    _trace(_CONTINUE, process)
    return process


def _stop_at_calls() -> None:
    """Make the kernel stop this process and its future threads only at `_CALLS`: it makes many other calls."""
    load_number, jump_if_equal, answer = 0x20, 0x15, 0x06
    allow, trace = 0x7FFF0000, 0x7FF00000
    jumps = [(jump_if_equal, len(_CALLS) - at, 0, number) for at, number in enumerate(_CALLS)]
    lines = [(load_number, 0, 0, 0), *jumps, (answer, 0, 0, allow), (answer, 0, 0, trace)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("HP", len(lines), ctypes.addressof(code)))
    no_new_privileges, set_seccomp, by_program = 38, 22, 2
    assert _libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert _libc.prctl(set_seccomp, by_program, ctypes.addressof(program), 0, 0) == 0


def _trace(request: int, thread: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, thread, address, data) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _call(thread: int, processes: list[int], folder: Path) -> Call | None:
    """Return the call that a thread has stopped before, if it is for paths in the folder."""
    at = _StoppedAt()
    _trace(_GET_CALL, thread, ctypes.sizeof(at), ctypes.addressof(at))
    assert at.architecture == _X86_64, "the numbers of calls are those of x86-64"
    name, kinds = _CALLS[at.number]
    if name in _OPENING and not at.arguments[len(kinds)] & (os.O_CREAT | os.O_TRUNC):
        return None
    paths = _paths(thread, kinds, at.arguments)
    if not any(path.is_relative_to(folder) for path in paths):
        return None
    status = Path(f"/proc/{thread}/status").read_text(encoding="ascii")
    return Call(processes.index(int(status.partition("Tgid:")[2].split()[0])), name, paths)


def _paths(thread: int, kinds: str, arguments: Sequence[int]) -> tuple[Path, ...]:
    place = Path(f"/proc/{thread}")
    begins_in = (place / "cwd").readlink()
    found = []
    for kind, argument in zip(kinds, arguments, strict=False):
        if kind == "f":
            found.append((place / "fd" / str(argument)).readlink())
        elif kind == "d":
            here = argument % 2**32 == _WORKING_FOLDER
            begins_in = (place / ("cwd" if here else f"fd/{argument}")).readlink()
        elif kind == "p":
            found.append(begins_in / _text(place / "mem", argument))
    return tuple(found)


def _text(memory: Path, address: int) -> str:
    with memory.open("rb", buffering=0) as file:
        file.seek(address)
        return os.fsdecode(file.read(_LONGEST_PATH).partition(b"\0")[0])


def _kill(processes: list[int], death: Death) -> None:
    os.kill(processes[death.process], signal.SIGKILL)
    for other in processes:
        if not death.alone:
            os.kill(other, signal.SIGKILL)


def _resume(thread: int, status: int) -> None:
    stopped_by = os.WSTOPSIG(status)
    of_tracing = stopped_by in (signal.SIGTRAP, signal.SIGSTOP)  # a new thread begins with SIGSTOP
    _trace(_CONTINUE, thread, data=0 if of_tracing else stopped_by)
