"""Starts the processes of a run on this machine, and finds out how many a launcher asked for."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from accel_train.errors import UserError

_PARENT_PIPE = "ACCEL_TRAIN_PARENT_PIPE"
_LAUNCHERS = {
    _PARENT_PIPE: "accel_train",
    "ACCELERATE_MIXED_PRECISION": "accelerate launch",
    "TORCHELASTIC_RUN_ID": "torchrun",
}
_ACCELERATE_LAUNCH = ("launch", "accelerate-launch", "accelerate.commands.launch")
_GRACE_SECONDS = 10.0  # for the other processes once one has failed, or once told to end
_POLL_SECONDS = 0.05
USERS_MISTAKE = 2
"""Exit code of a process that its user can put right."""


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def launched(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a launcher has started all processes of the run already."""
    return "RANK" in environ and "WORLD_SIZE" in environ


def local_world_size() -> int:
    """Return how many processes of the run are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if launched() else 1


def launched_rank() -> int:
    """Return this process's number among all of the run."""
    return int(os.environ["RANK"]) if launched() else 0


def launcher_name() -> str:
    """Say who started the processes."""
    return next((name for variable, name in _LAUNCHERS.items() if variable in os.environ), "accel_train")


def processes_to_start(asked: int | None) -> int:
    """Return how many processes this one must start to carry the run; 1 means: none, it is one of them.

    `accelerate launch` on CPUs starts one process whatever is asked; its only traces are MASTER_PORT without
    RANK, and its command line (accelerate 1.15). What was asked there is started here.

    Raises:
        UserError: launcher and option contradict each other, or what the launcher asked cannot be carried out.
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
    # Accelerate's own rule: its default file counts unless --cpu is given.
    has_file = options.config_file or (Path(default_config_file).is_file() and not options.cpu)
    stored = load_config_from_file(options.config_file) if has_file else None
    count = options.num_processes or getattr(stored, "num_processes", None)
    machines = options.num_machines or getattr(stored, "num_machines", 1)
    if machines > 1 or not count:
        raise UserError("accelerate launch starts CPU processes on several machines only through MPI", hint)
    return int(count)


def start_processes(count: int, arguments: list[str]) -> int:
    """Run this program `count` times as one job and return its exit code.

    Processes have a session of their own, so that Ctrl-C reaches them once, through this one; when this one
    dies, however suddenly, so do they.
    """
    lifeline, held_open = os.pipe()
    environment = {
        **os.environ,
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        _PARENT_PIPE: str(lifeline),
    }
    environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // count)))
    if sys.platform == "linux":
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else Gloo asks what the host's name resolves to
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "accel_train", *arguments],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            pass_fds=(lifeline,),
            start_new_session=True,
        )
        for rank in range(count)
    ]
    try:
        return _wait(children)
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()
        os.close(held_open)
        os.close(lifeline)


def end_with_parent() -> None:
    """End this process as soon as the one that started it by :func:`start_processes` is gone."""
    if _PARENT_PIPE not in os.environ:
        return
    lifeline = int(os.environ[_PARENT_PIPE])

    def watch() -> None:
        os.read(lifeline, 1)  # nothing is ever written: this returns when the parent's end closes
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _wait(children: list[subprocess.Popen[bytes]]) -> int:
    """Wait until all have ended, giving the others a grace period once one has failed or a signal came."""
    received: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for child in children:
            child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    deadline = None
    first_failure = 0
    while None in [child.poll() for child in children]:  # a list: each must be polled
        first_failure = first_failure or next((c.returncode for c in children if c.returncode), 0)
        if deadline is None and (first_failure or received):
            deadline = time.monotonic() + _GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            for child in children:
                child.kill()
        time.sleep(_POLL_SECONDS)
    if received:
        return 128 + received[0]
    codes = [child.returncode for child in children]
    if USERS_MISTAKE in codes:  # those that then lost it have other codes
        return USERS_MISTAKE
    first_failure = first_failure or next((code for code in codes if code), 0)
    return first_failure if first_failure >= 0 else 128 - first_failure


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
