"""Reads the environment that a launcher has set: how many processes there are, and which one this is."""

import os
from collections.abc import Mapping
from pathlib import Path

_PARENT = os.getppid()  # read first of all: it changes when that process dies
LAUNCHER_PID = "ACCEL_TRAINLAUNCHER_PID"
_LAUNCHERS = {
    LAUNCHER_PID: "accel_train",
    "ACCELERATE_MIXED_PRECISION": "accelerate launch",
    "TORCHELASTIC_RUN_ID": "torchrun",
}


def available_cores(topology: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return how many physical cores this process may use: a second thread on one adds nothing to arithmetic."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return len(cores)


def launched(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a launcher has started all processes of the run already."""
    return "RANK" in environ and "WORLD_SIZE" in environ


def local_world_size() -> int:
    """Return how many processes of the run are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if launched() else 1


def share_of_cores() -> int:
    """Return how many cores each process of this machine has for itself."""
    return max(1, available_cores() // local_world_size())


def local_rank() -> int:
    """Return this process's number among those of this machine."""
    return int(os.environ.get("LOCAL_RANK", "0")) if launched() else 0


def launched_rank() -> int:
    """Return this process's number among all of the run."""
    return int(os.environ["RANK"]) if launched() else 0


def launcher_name() -> str:
    """Say who started the processes."""
    return next((name for variable, name in _LAUNCHERS.items() if variable in os.environ), "accel_train")


def launcher_pid() -> int | None:
    """Return the process whose death must end this one: a launcher, but not a person's shell."""
    if LAUNCHER_PID in os.environ:
        return int(os.environ[LAUNCHER_PID])
    return _PARENT if any(variable in os.environ for variable in _LAUNCHERS) else None
