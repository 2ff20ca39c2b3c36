"""Reads the variables that srun, mpirun and other launchers of clusters set for each process.

All tasks of a job find the same values without talking to each other: these follow from the launcher's variables.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accel_train.errors import UserError

_FIRST_PORT, _PORTS = 10_000, 19_001
"""Up to 29000: below torchrun's 29500, and below 32768, where Linux begins to give ports to connections. A prime."""
_PORTS_PER_JOB = 131
"""Jobs with successive numbers are so far apart, so that the steps of one do not meet the other."""
_FIRST_HOST = r"(?:[^,\[\]]|\[[^\[\]]+\])+"
_FIRST_IN_BRACKETS = r"\[([^],-]+)[^]]*\]"
_TASKS_OF_NODES = r"(\d+)(?:\(x(\d+)\))?"


@dataclass(frozen=True)
class Task:
    """One of the processes that a launcher has started, and where they meet."""

    launcher: str
    rank: int
    count: int
    local_rank: int
    local_count: int
    job: str = ""
    """The same for all tasks of a job, and for no others; empty if they cannot be joined."""
    host: str | None = None
    port: int | None = None
    cpus: int | None = None
    """CPUs of all tasks on this machine together."""
    refusal: UserError | None = None
    """Raised if job, host or port is unknown."""

    @property
    def place(self) -> dict[str, str]:
        """The variables that number the processes."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.count),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_count),
        }


Environment = Mapping[str, str]
_Read = Callable[[Environment, int, int | None], Task | None]


def _mpi(names: tuple[str, str, str, str], options: str) -> _Read:
    """Return a reader of mpirun's variables for rank, size, local rank and local size."""

    def read(environ: Environment, starter: int, cpus: int | None) -> Task:
        rank, count, local_rank, local_count = (_number(environ, name) for name in names)
        several = local_count < count
        job = environ.get("PMIX_NAMESPACE") or ("mpirun" if several else str(starter))  # MPICH names no job
        refusal = UserError(
            f"mpirun has started {count} processes on several machines, and MASTER_ADDR or MASTER_PORT is not set",
            f"name the machine of rank 0 and a free port on it: mpirun {options} accel_train …",
        )
        return Task(
            "mpirun",
            *(rank, count, local_rank, local_count),
            job=job,
            host=None if several else "127.0.0.1",
            port=None if several else _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS,
            cpus=cpus,
            refusal=refusal if several else None,
        )

    return read


def _srun(environ: Environment, starter: int, cpus: int | None) -> Task | None:
    if "SLURM_STEP_NUM_TASKS" not in environ:
        _check_batch_script(environ)
        return None
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_ID")
    rank, count, local_rank, node, job, step = (_number(environ, name) for name in names)
    per_node, hosts = _tasks_of_nodes(environ), environ.get("SLURM_STEP_NODELIST", "")
    first, local_count = re.match(_FIRST_HOST, hosts), sum(per_node[node : node + 1])
    if not first or not local_count:
        raise UserError(f"SLURM_STEP_NODELIST={hosts} does not name node {node}", "pass all variables SLURM_* on")
    if len(environ.get("SLURM_GTIDS", local_count * ",").split(",")) < local_count:
        return None  # sbatch, called by a task, leaves that task's variables to its script
    return Task(
        "srun",
        *(rank, count, local_rank, local_count),
        job=f"{job}.{step}",
        host="127.0.0.1" if len(per_node) == 1 else re.sub(_FIRST_IN_BRACKETS, r"\1", first[0]),
        port=_FIRST_PORT + (job * _PORTS_PER_JOB + step) % _PORTS,
        cpus=_number(environ, "SLURM_CPUS_ON_NODE") if "SLURM_CPUS_ON_NODE" in environ else None,
    )


def _check_batch_script(environ: Environment) -> None:
    """Check that SLURM_PROCID is sbatch's, whose script is one process: 0 even if SLURM_NTASKS is more than 1."""
    several = environ.get("SLURM_NTASKS", "1") != "1"
    if environ["SLURM_PROCID"] != "0" or (several and "SLURM_JOB_ID" not in environ):
        raise UserError(
            f"SLURM_PROCID={environ['SLURM_PROCID']}, but srun's SLURM_STEP_NUM_TASKS is not set",
            "pass all variables SLURM_* on, or unset SLURM_PROCID",
        )


def _tasks_of_nodes(environ: Environment) -> list[int]:
    counts: list[int] = []
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        if not (found := re.fullmatch(_TASKS_OF_NODES, part)):
            raise UserError(
                f"SLURM_STEP_TASKS_PER_NODE={part} is no list such as 2(x3),1", "pass all variables SLURM_* on"
            )
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _refused(launcher: str, variable: str, size: str | None = None, local: str | None = None) -> tuple[str, _Read]:
    """Return the row of a launcher that is only recognized, with its variables for rank, size and local rank."""

    def read(environ: Environment, starter: int, cpus: int | None) -> Task | None:
        rank = _number(environ, variable)
        count = _number(environ, size) if size and size in environ else 2  # at least
        if count == 1:
            return None  # it has started one process, perhaps another launcher
        place = f"RANK=${variable} WORLD_SIZE={f'${size}' if size else '…'} LOCAL_RANK={f'${local}' if local else '…'}"
        refusal = UserError(
            f"{launcher} has started several processes ({variable}={rank}), and each would train the whole run",
            f"start them with srun, mpirun or torchrun, or tell each its place: {launcher} sh -c '{place} "
            "LOCAL_WORLD_SIZE=… MASTER_ADDR=HOST MASTER_PORT=29511 accel_train …'",
        )
        return Task(launcher, rank, count, _number(environ, local) if local else 0, 1, refusal=refusal)

    return variable, read


def _pbsdsh(environ: Environment, starter: int, cpus: int | None) -> Task | None:
    """Tell what pbsdsh has started from the job's script, which is task 1 of node 0."""
    is_script = environ["PBS_TASKNUM"] == "1" and environ.get("PBS_NODENUM", "0") == "0"
    return None if is_script else _refused("pbsdsh", "PBS_TASKNUM")[1](environ, starter, cpus)


def _number(environ: Environment, name: str) -> int:
    value = environ.get(name, "")
    if not (value.isascii() and value.isdecimal()):
        raise UserError(
            f"{name}={value} is no number" if value else f"{name} is not set",
            "pass all variables of the launcher on: one process of several cannot tell its place without it",
        )
    return int(value)


LAUNCHERS: tuple[tuple[str, _Read], ...] = (
    _refused("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK"),
    (
        "OMPI_COMM_WORLD_RANK",
        _mpi(
            (
                *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                *("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
            ),
            "-x MASTER_ADDR=HOST -x MASTER_PORT=29511",
        ),
    ),
    (
        "MPI_LOCALRANKID",  # of MPICH and Intel MPI
        _mpi(
            ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
            "-genv MASTER_ADDR HOST -genv MASTER_PORT 29511",
        ),
    ),
    _refused("flux run", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"),
    _refused("mpiexec (PALS)", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID"),
    _refused("aprun", "ALPS_APP_PE"),
    _refused("mpirun_rsh", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    _refused("horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK"),
    ("SLURM_PROCID", _srun),
    ("PBS_TASKNUM", _pbsdsh),
    _refused("a launcher with PMIx", "PMIX_RANK"),
    _refused("a launcher with PMI", "PMI_RANK", "PMI_SIZE"),
)
"""A variable that a launcher sets, and how to read its others. One that is started inside another comes first."""
