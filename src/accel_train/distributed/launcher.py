"""Starts the processes of a run on this machine."""

import math
import os
import signal
import socket
import subprocess
import sys
import time

from accel_train.distributed.accelerate_launch import asked_of_accelerate
from accel_train.distributed.environment import (
    LAUNCHER_PID,
    LAUNCHER_SET,
    asked_threads,
    available_cores,
    by_accelerate,
    launched,
    launcher_name,
    launcher_pid,
    world_size,
)
from accel_train.distributed.environment_check import check_environment
from accel_train.errors import UserError
from accel_train.loggers.text import quantity, write_to_stderr
from accel_train.system.signals import SIGNALS, TYPED, heard, release

_LOOPBACK = "127.0.0.1"
_PORT_OF_ACCELERATE = "29500"  # unless it was asked for another
_SECONDS_AFTER_FAILURE = 10.0  # for the others once one has ended with an error or a signal
_POLL_SECONDS = 0.05
_FEW, _MOST_PER_CORE = 16, 4
USERS_MISTAKE = UserError.exit_code
"""Exit code of a user's mistake."""
_EXPLAINED = (0, 1, USERS_MISTAKE, *(reason.exit_code for reason in SIGNALS.values()))


def processes_to_start(asked: int | None) -> int:
    """Return the number of processes to start; 1 means none: this process trains.

    `accelerate launch` on CPUs starts one process whatever is asked. Its only traces are MASTER_PORT without RANK,
    and its command line (accelerate 1.15). The missing processes are started here.

    Raises:
        UserError: launcher and option contradict each other, or the environment asks for what is not supported.
    """
    check_environment()
    if launched():
        if asked not in (None, world_size()):
            raise UserError(
                f"--processes {asked}, but the launcher started {world_size()}",
                f"leave --processes out, or have the launcher start {asked}",
            )
        return 1
    if not by_accelerate() or "MASTER_PORT" not in os.environ:
        return runnable(asked or 1)
    by_launcher = _processes_of_accelerate()
    if asked not in (None, by_launcher):
        raise UserError(
            f"--processes {asked}, but accelerate launch was asked for {by_launcher}", "leave one of the two out"
        )
    return runnable(by_launcher)


def runnable(count: int) -> int:
    """Return a number of processes that this machine can run: many more than it has cores would make it unusable."""
    cores = available_cores()
    most = max(_FEW, _MOST_PER_CORE * cores)
    if count > most:
        raise UserError(
            f"{count} processes are too many for {quantity(cores, 'core')}: at most {most}",
            f"use --processes {cores}, and --accumulate for a larger global batch",
        )
    return count


def check_processes(asked: int | None) -> None:
    """Check what the environment asks for, and that this process is one of as many as asked.

    Raises:
        UserError: it is not, or the environment asks for what is not supported.
    """
    check_environment()
    if asked not in (None, world_size()):
        raise UserError(
            f"{quantity(asked or 0, 'process', 'processes')} asked for, but this is one of {world_size()}",
            f"start it with `accel_train train --processes {asked}` or a launcher",
        )


def check_alone(command: str) -> None:
    """Check that a command that is no part of a run was started once.

    Raises:
        UserError: a launcher has started it several times: each process would do all of the work.
    """
    if world_size() > 1:
        raise UserError(
            f"`accel_train {command}` is one process, but {launcher_name()} has started {world_size()}",
            "start it without a launcher, or with srun -n 1",
        )


def _processes_of_accelerate() -> int:
    hint = "start it as `accel_train train --processes N`, or with accelerate's --multi_gpu and --num_processes N"
    asked = asked_of_accelerate()
    if asked is None:
        raise UserError("accelerate launch was asked for several processes, and started one", hint)
    if asked.machines > 1 or not asked.processes:
        raise UserError("accelerate launch starts CPU processes on several machines only through MPI", hint)
    return asked.processes


def start_processes(count: int, arguments: list[str], module: str = "accel_train") -> int:
    """Run a module in `count` processes and return the exit code of the first that fails, or 0.

    Each process has its own session, so that Ctrl-C reaches it once, through this one. When this process dies, they
    save and stop (see system/signals.py).
    """
    received: list[int] = []
    for number in heard():
        signal.signal(number, lambda number, frame: received.append(number))
    release()
    environment = os.environ | _environment(count)
    children = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],  # -P: no modules of the current folder
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            start_new_session=True,
        )
        for rank in range(count)
    ]
    if signal.getsignal(signal.SIGTSTP) != signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, lambda number, frame: _suspend(children))
    try:
        return _wait(children, received)
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()


def _suspend(children: list[subprocess.Popen[bytes]]) -> None:
    """Stop all processes, which the terminal's Ctrl-Z does not reach, and this one; continue together."""
    for child in children:
        child.send_signal(signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)  # returns when this process is continued
    for child in children:
        child.send_signal(signal.SIGCONT)


def _environment(count: int) -> dict[str, str]:
    """Return the variables that are the same for all processes."""
    chosen = {}
    if asked_threads() is None:
        chosen["OMP_NUM_THREADS"] = str(max(1, available_cores() // count))
    return {
        **chosen,
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": _LOOPBACK,
        "MASTER_PORT": _port(),
        LAUNCHER_PID: str(os.getpid()),
        LAUNCHER_SET: ",".join(chosen),
    }


def _wait(children: list[subprocess.Popen[bytes]], received: list[int]) -> int:
    """Forward signals until all processes have ended, and return the exit code.

    After a signal each process limits its own time, because it knows how long an update takes and whether it saves
    (see system/signals.py). Here time is limited once one has failed, or the user has typed a second signal.
    """
    launcher = launcher_pid()
    forwarded, failure, deadline = 0, 0, math.inf
    codes: dict[int, int] = {}  # by rank, of those that have ended
    while len(codes) < len(children) and time.monotonic() < deadline:
        if launcher not in (None, os.getppid()):
            launcher = None
            received.append(signal.SIGTERM)
        for number in received[forwarded:]:
            forwarded += 1
            _send(children, number)
        polled = {rank: child.poll() for rank, child in enumerate(children) if rank not in codes}
        ended = {rank: code for rank, code in polled.items() if code is not None}
        codes |= ended
        for rank, code in ended.items():
            if code not in _EXPLAINED and -code not in received:
                _say(rank, len(children), _how_it_ended(code))
        # Ranks that lose their peer end with 1, perhaps before the next poll.
        failure = failure or min(filter(None, ended.values()), key=lambda code: code == 1, default=0)
        if deadline == math.inf and (failure or sum(number in TYPED for number in received) > 1):
            deadline = time.monotonic() + _SECONDS_AFTER_FAILURE
        time.sleep(_POLL_SECONDS)
    for rank in range(len(children)):
        if rank not in codes:
            _say(rank, len(children), f"did not end within {_SECONDS_AFTER_FAILURE:g} s and was killed")
    if USERS_MISTAKE in codes.values():  # ranks that then lost their peer have other codes
        return USERS_MISTAKE
    if failure == 0 and len(codes) < len(children):
        return 128 + received[0]
    return failure if failure >= 0 else 128 - failure


def _send(children: list[subprocess.Popen[bytes]], number: int) -> None:
    """Send a signal to all processes, suspended ones too."""
    for child in children:
        child.send_signal(number)
        child.send_signal(signal.SIGCONT)


def _how_it_ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _say(rank: int, count: int, what: str) -> None:
    write_to_stderr(f"rank {rank} of {count} {what}\n")


def _port() -> str:
    """Return MASTER_PORT, or a free port if it is unset or the default of `accelerate launch`.

    Raises:
        UserError: another program listens there, or the loopback interface is down.
    """
    asked = os.environ.get("MASTER_PORT", "").strip()
    if by_accelerate() and asked == _PORT_OF_ACCELERATE:
        asked = ""
    try:
        with socket.create_server((_LOOPBACK, int(asked or 0))) as probe, socket.create_connection(probe.getsockname()):
            return str(probe.getsockname()[1])
    except OSError as error:
        place = f"{_LOOPBACK}:{asked}" if asked else _LOOPBACK
        hint = "set MASTER_PORT to a free one, or unset it" if asked else "bring up the network interface lo"
        raise UserError(f"cannot listen at {place}: {error.strerror}", hint) from None
