"""Reads the environment that a launcher has set: how many processes there are, and which one this is."""

import os
from collections.abc import Mapping
from pathlib import Path

from accel_train.distributed.environment_values import thread_counts

_PARENT = os.getppid()  # read at import: it changes when that process dies
LAUNCHER_PID = "ACCEL_TRAIN_LAUNCHER_PID"
JOB_LAUNCHER, JOB_ID, JOB_CPUS = "ACCEL_TRAIN_JOB_LAUNCHER", "ACCEL_TRAIN_JOB_ID", "ACCEL_TRAIN_JOB_CPUS"
"""Set in tasks of srun or mpirun (schedulers.py)."""
LAUNCHER_SET = "ACCEL_TRAIN_LAUNCHER_SET"
"""Names of variables that our launcher has chosen itself."""
_OF_ACCELERATE = "ACCELERATE_DYNAMO_MODE"
"""A variable that `accelerate launch` always sets and nobody else does (accelerate 1.15)."""
_LAUNCHERS = {LAUNCHER_PID: "accel_train", _OF_ACCELERATE: "accelerate launch", "TORCHELASTIC_RUN_ID": "torchrun"}


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
    return all(environ.get(name, "").strip() for name in ("RANK", "WORLD_SIZE"))


def by_accelerate(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether `accelerate launch` has started this process."""
    return _OF_ACCELERATE in environ


def world_size() -> int:
    """Return the number of processes of the run."""
    return _place("WORLD_SIZE", alone=1)


def local_world_size() -> int:
    """Return the number of processes of the run on this machine."""
    return _place("LOCAL_WORLD_SIZE", alone=1)


def share_of_cores() -> int:
    """Return the number of cores per process of this machine; srun or mpirun may have bound each to its own."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    sharing = local_world_size() * own // max(own, int(os.environ.get(JOB_CPUS, own)))
    return max(1, available_cores() // max(1, sharing))


def local_rank() -> int:
    """Return this process's rank on this machine."""
    return _place("LOCAL_RANK", alone=0)


def launched_rank() -> int:
    """Return this process's rank in the run."""
    return _place("RANK", alone=0)


def machine() -> int:
    """Return the number that the launcher gave this machine; 0 if it has given none."""
    return _place("GROUP_RANK", alone=0)


def _place(name: str, alone: int) -> int:
    """Return a number that a launcher has set; a malformed one is reported later (environment_check.py)."""
    value = os.environ.get(name, "").strip()
    return int(value) if launched() and value.isascii() and value.isdecimal() else alone


def asked_threads(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the number of threads that the environment asks for; torch prefers MKL's."""
    for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        if environ.get(name, "").strip():
            return thread_counts(environ[name])
    return None


def machines() -> int:
    """Return the number of machines that the launcher knows of."""
    return _place("GROUP_WORLD_SIZE", alone=1)


def restarts() -> bool:
    """Return whether the launcher starts all processes again when one has died."""
    asked = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "")
    return asked.isdecimal() and int(asked) > 0


def restart_notes() -> tuple[str, ...]:
    """Return what the user should know of the launcher's restarts."""
    # torch 2.14 does not tell a host that is back where the store is that the others know from an earlier attempt.
    if not restarts() or machines() == 1 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return ()
    return (
        "a host that is lost cannot come back: use torchrun with --rdzv_backend c10d, and "
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment",
    )


def launcher_name() -> str:
    """Return the name of the launcher."""
    named = (name for variable, name in _LAUNCHERS.items() if variable in os.environ)
    return os.environ.get(JOB_LAUNCHER) or next(named, "accel_train")


def started_by_us(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether our launcher has started this process."""
    return LAUNCHER_PID in environ


def by_other_launcher(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the user has started the run by another command than ours."""
    return by_accelerate(environ) or JOB_LAUNCHER in environ or (launched(environ) and not started_by_us(environ))


def launcher_pid() -> int | None:
    """Return the PID of the launcher, whose death ends this process; None for a shell."""
    if os.environ.get(LAUNCHER_PID, "").isdecimal():
        return int(os.environ[LAUNCHER_PID])
    return _PARENT if any(variable in os.environ for variable in (JOB_LAUNCHER, *_LAUNCHERS)) else None
