"""Makes one run of the tasks that srun or mpirun has started; refuses those of launchers that it cannot join."""

import os
from collections.abc import MutableMapping

from accel_train.distributed.accelerate_launch import asked_of_accelerate
from accel_train.distributed.environment import JOB_CPUS, JOB_ID, JOB_LAUNCHER, launched
from accel_train.distributed.scheduler_variables import LAUNCHERS, Environment, Task
from accel_train.errors import UserError


def join(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set torchrun's variables from those of srun or mpirun, unless a launcher between them has set them.

    Raises:
        UserError: the tasks cannot be joined, so each would train the whole run.
    """
    if not any(variable in environ for variable, _ in LAUNCHERS):
        return
    task = find_task(environ, starter=_starter(), cpus=_cpus_of_parent())
    if task is None:
        return
    if launched(environ):
        _check_between(task, environ)
        return
    _check_given(task, environ)
    environ.update(task.place)  # first: of processes that know their place, one reports an error
    environ.update(meeting_point(task, environ))


def find_task(environ: Environment, *, starter: int, cpus: int | None) -> Task | None:
    """Return what a launcher of several processes has started here; None if there is no such launcher.

    `starter` is the PID of the parent of this session's leader, `cpus` the number of CPUs of the parent process.

    Raises:
        UserError: the launcher's variables are incomplete or malformed.
    """
    for variable, read in LAUNCHERS:
        if variable in environ and (task := read(environ, starter, cpus)):
            return task if task.count > 1 else None
    return None


def rank_in(environ: Environment) -> int | None:
    """Return the rank of a process that was started with this environment; None if it is of no run.

    Raises:
        UserError: the launcher's variables are incomplete or malformed.
    """
    if rank := environ.get("RANK", "").strip():
        return int(rank)
    task = find_task(environ, starter=0, cpus=None)
    return task.rank if task else None


def meeting_point(task: Task, environ: Environment) -> dict[str, str]:
    """Return where the tasks meet, and what they know of their job; a user's MASTER_ADDR and MASTER_PORT win.

    Raises:
        UserError: it is unknown.
    """
    host = environ.get("MASTER_ADDR", "").strip() or task.host
    port = environ.get("MASTER_PORT", "").strip() or task.port
    if task.refusal and not (task.job and host and port):
        raise task.refusal
    found = {"MASTER_ADDR": str(host), "MASTER_PORT": str(port), JOB_LAUNCHER: task.launcher, JOB_ID: task.job}
    if task.launcher == "mpirun":
        found["TERM"] = "dumb"  # rank 0 writes to a terminal of Open MPI's even if the output goes to a file
    if task.cpus:
        found[JOB_CPUS] = str(task.cpus)
    return found


def _check_between(task: Task, environ: Environment) -> None:
    """Check the launcher that each task has started: together they must have as many as there are tasks."""
    name = "GROUP_WORLD_SIZE" if environ.get("GROUP_WORLD_SIZE", "").strip() else "WORLD_SIZE"
    if environ[name].isdecimal() and int(environ[name]) < task.count:
        raise UserError(
            f"{task.launcher} has started {task.count} tasks, but {name}={environ[name]}: all would train the same run",
            f"leave out torchrun or accelerate launch, or give it --nnodes {task.count} and --rdzv_endpoint; "
            f"if you have set RANK and WORLD_SIZE, unset them: {task.launcher} sets them",
        )


def _check_given(task: Task, environ: Environment) -> None:
    """Check that a number of processes that is given is that of the tasks."""
    for name, value in task.place.items():
        if environ.get(name, "").strip() not in ("", value):
            raise UserError(
                f"{name}={environ[name]}, but {task.launcher} has started rank {task.rank} of {task.count}",
                f"unset {name}: {task.launcher} sets it",
            )
    asked = asked_of_accelerate(environ)
    if asked and asked.processes not in (None, task.count):
        raise UserError(
            f"{task.launcher} has started {task.count} tasks, but accelerate launch was asked for {asked.processes}",
            f"leave accelerate launch out: {task.launcher} -n {task.count} accel_train …",
        )


def _starter() -> int:
    """Return the PID of the parent of this session's leader, which is the same for all tasks of MPICH on a machine."""
    import psutil

    try:
        return int(psutil.Process(os.getsid(0)).ppid())
    except (psutil.Error, OSError, ValueError):
        return 0


def _cpus_of_parent() -> int | None:
    return len(os.sched_getaffinity(os.getppid())) if hasattr(os, "sched_getaffinity") else None
