"""Reads the environment that a launcher has set: how many processes there are, and which one this is."""

import os
from collections.abc import Mapping
from pathlib import Path

_PARENT = os.getppid()  # read at import: it changes when that process dies
LAUNCHER_PID = "ACCEL_TRAIN_LAUNCHER_PID"
_LAUNCHERS = {
    LAUNCHER_PID: "accel_train",
    "ACCELERATE_MIXED_PRECISION": "accelerate launch",
    "TORCHELASTIC_RUN_ID": "torchrun",
}


def available_cores(topology: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the number of physical cores that this process may use: hyper-threads do not speed up arithmetic."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return len(cores)


def launched(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a launcher has started this process."""
    return "RANK" in environ and "WORLD_SIZE" in environ


def local_world_size() -> int:
    """Return the number of processes of the run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if launched() else 1


def share_of_cores() -> int:
    """Return the number of cores per process of this machine."""
    return max(1, available_cores() // local_world_size())


def local_rank() -> int:
    """Return this process's rank on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0")) if launched() else 0


def launched_rank() -> int:
    """Return this process's rank in the run."""
    return int(os.environ["RANK"]) if launched() else 0


def launcher_name() -> str:
    """Return the name of the launcher."""
    return next((name for variable, name in _LAUNCHERS.items() if variable in os.environ), "accel_train")


def launcher_pid() -> int | None:
    """Return the PID of the launcher, whose death ends this process; None for a shell."""
    if LAUNCHER_PID in os.environ:
        return int(os.environ[LAUNCHER_PID])
    return _PARENT if any(variable in os.environ for variable in _LAUNCHERS) else None
