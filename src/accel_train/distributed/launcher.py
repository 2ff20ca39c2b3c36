"""Starts the processes of a run on this machine."""

import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from accel_train.distributed.environment import LAUNCHER_PID, available_cores, launched, launcher_pid
from accel_train.errors import UserError
from accel_train.system.signals import SIGNALS, release

_ACCELERATE_LAUNCH = ("launch", "accelerate-launch", "accelerate.commands.launch")
_SECONDS_TO_SAVE = 30.0  # for all processes once they are told to stop
_SECONDS_AFTER_FAILURE = 10.0  # for the others once one has failed
_POLL_SECONDS = 0.05
USERS_MISTAKE = 2
"""Exit code of a user's mistake."""
_EXPLAINED = (0, 1, USERS_MISTAKE, *(reason.exit_code for reason in SIGNALS.values()))


def processes_to_start(asked: int | None) -> int:
    """Return the number of processes to start; 1 means none: this process trains.

    `accelerate launch` on CPUs starts one process whatever is asked. Its only traces are MASTER_PORT without RANK,
    and its command line (accelerate 1.15). The missing processes are started here.

    Raises:
        UserError: launcher and option contradict each other, or the launcher asks for what cannot be started.
    """
    if launched():
        world_size = int(os.environ["WORLD_SIZE"])
        if asked is not None and asked != world_size:
            raise UserError(
                f"--processes {asked}, but the launcher started {world_size}",
                f"leave --processes out, or have the launcher start {asked}",
            )
        return 1
    if "MASTER_PORT" not in os.environ:
        return asked or 1
    by_launcher = _asked_of_accelerate()
    if asked is not None and asked != by_launcher:
        raise UserError(
            f"--processes {asked}, but accelerate launch was asked for {by_launcher}", "leave one of the two out"
        )
    return by_launcher


def check_processes(asked: int | None) -> None:
    """Check that this process is one of as many as asked.

    Raises:
        UserError: it is not.
    """
    world_size = int(os.environ["WORLD_SIZE"]) if launched() else 1
    if asked not in (None, world_size):
        raise UserError(
            f"{asked} processes asked for, but this is one of {world_size}",
            f"start it with `accel_train train --processes {asked}` or a launcher",
        )


def _asked_of_accelerate() -> int:
    import psutil

    hint = "start it as `accel_train train --processes N`, or with accelerate's --multi_gpu and --num_processes N"
    words = psutil.Process(os.getppid()).cmdline()
    start = next((i for i, word in enumerate(words) if Path(word).name in _ACCELERATE_LAUNCH), None)
    if start is None:
        raise UserError("MASTER_PORT is set but RANK is not: several processes were asked for, one was started", hint)
    from accelerate.commands.config.config_args import default_config_file, load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    options = launch_command_parser().parse_args(words[start + 1 :])
    # As Accelerate does: its default file is read unless --cpu is given.
    has_file = options.config_file or (Path(default_config_file).is_file() and not options.cpu)
    stored = load_config_from_file(options.config_file) if has_file else None
    count = options.num_processes or getattr(stored, "num_processes", None)
    machines = options.num_machines or getattr(stored, "num_machines", 1)
    if machines > 1 or not count:
        raise UserError("accelerate launch starts CPU processes on several machines only through MPI", hint)
    return int(count)


def start_processes(count: int, arguments: list[str]) -> int:
    """Run this program in `count` processes and return the exit code of the first that fails, or 0.

    Each process has its own session, so that Ctrl-C reaches it once, through this one. When this process dies, they
    save and stop (see system/signals.py).
    """
    received: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: received.append(number))
    release()
    environment = {
        **os.environ,
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        LAUNCHER_PID: str(os.getpid()),
    }
    environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // count)))
    if sys.platform == "linux":
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else Gloo asks what the host's name resolves to
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "accel_train", *arguments],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            start_new_session=True,
        )
        for rank in range(count)
    ]
    try:
        return _wait(children, received)
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()


def _wait(children: list[subprocess.Popen[bytes]], received: list[int]) -> int:
    """Forward signals until all processes have ended, or time is up after a signal or failure; return the exit code."""
    launcher = launcher_pid()
    forwarded, failure, seconds, deadline = 0, 0, math.inf, math.inf
    codes: dict[int, int] = {}  # by rank, of those that have ended
    while len(codes) < len(children) and time.monotonic() < deadline:
        if launcher not in (None, os.getppid()):
            launcher = None
            received.append(signal.SIGTERM)
        for number in received[forwarded:]:
            forwarded += 1
            for child in children:
                child.send_signal(number)
        polled = {rank: child.poll() for rank, child in enumerate(children) if rank not in codes}
        ended = {rank: code for rank, code in polled.items() if code is not None}
        codes |= ended
        for rank, code in ended.items():
            if code not in _EXPLAINED and -code not in received:
                _say(rank, len(children), _how_it_ended(code))
        # Ranks that lose their peer end with 1, perhaps before the next poll.
        failure = failure or min(filter(None, ended.values()), key=lambda code: code == 1, default=0)
        if deadline == math.inf and (failure or received):
            seconds = _SECONDS_TO_SAVE if received else _SECONDS_AFTER_FAILURE
            deadline = time.monotonic() + seconds
        time.sleep(_POLL_SECONDS)
    for rank in range(len(children)):
        if rank not in codes:
            _say(rank, len(children), f"did not end within {seconds:g} s and was killed")
    if USERS_MISTAKE in codes.values():  # ranks that then lost their peer have other codes
        return USERS_MISTAKE
    if failure == 0 and len(codes) < len(children):
        return 128 + received[0]
    return failure if failure >= 0 else 128 - failure


def _how_it_ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _say(rank: int, count: int, what: str) -> None:
    sys.stderr.write(f"rank {rank} of {count} {what}\n")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
