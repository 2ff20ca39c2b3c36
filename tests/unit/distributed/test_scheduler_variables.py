"""What srun, mpirun and other launchers tell a process becomes a Task, or is refused with the command to use."""

import pytest

from accel_train.distributed.scheduler_variables import LAUNCHERS, Task
from accel_train.distributed.schedulers import find_task, join, meeting_point
from accel_train.errors import UserError

SRUN = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURM_STEP_NODELIST": "node1",
    "SLURM_GTIDS": "0,1",
    "SLURM_CPUS_ON_NODE": "8",
}
"""As SLURM 22.05 sets them for `srun -n 2`."""
BATCH_SCRIPT = {
    "SLURM_JOB_ID": "7",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "2",
    "SLURM_TASKS_PER_NODE": "2",
    "SLURM_GTIDS": "0",
}
"""As `sbatch -n 2` sets them for its script."""
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "448921601",
    "PMIX_RANK": "1",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
OF_OPEN_MPIS_DAEMON = {
    **SRUN,
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_STEP_NODELIST": "node[1-2]",
}
"""`mpirun` in a job starts a daemon on each node by srun; the daemons' tasks are not those of the run."""


def found(environ: dict[str, str]) -> Task | None:
    return find_task(environ, starter=99, cpus=4)


def place(environ: dict[str, str]) -> tuple[int, int, int, int]:
    task = found(environ)
    assert task
    return task.rank, task.count, task.local_rank, task.local_count


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (SRUN, (1, 2, 1, 2)),
        (SRUN | {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_JOBID": "7.0"}, (1, 2, 1, 2)),  # srun --mpi=pmi2
        (SRUN | {"SLURM_NTASKS": "16"}, (1, 2, 1, 2)),  # a step of fewer tasks than its job
        (OPEN_MPI, (1, 2, 1, 2)),
        (MPICH, (1, 2, 1, 2)),
        (OF_OPEN_MPIS_DAEMON | OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "3"}, (1, 3, 1, 2)),
        (OF_OPEN_MPIS_DAEMON | MPICH | {"PMI_SIZE": "3"}, (1, 3, 1, 2)),
        (BATCH_SCRIPT | OPEN_MPI, (1, 2, 1, 2)),
    ],
)
def test_place_is_that_of_the_innermost_launcher(environ: dict[str, str], expected: tuple[int, int, int, int]) -> None:
    assert place(environ) == expected


@pytest.mark.parametrize(
    "environ",
    [
        {},
        BATCH_SCRIPT,
        BATCH_SCRIPT | {key: SRUN[key] for key in SRUN if "STEP" in key},  # sbatch, called by a task of srun
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_NODELIST": "node1"},  # salloc
        SRUN | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"},  # srun --pty bash
        OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
        OF_OPEN_MPIS_DAEMON | OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
        MPICH | {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALNRANKS": "1"},
        {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "1", "FLUX_TASK_LOCAL_ID": "0"},
        {"PBS_TASKNUM": "1", "PBS_NODENUM": "0"},  # the script of a PBS job
        {"SM_CURRENT_HOST": "algo-1", "SM_HP_EXACT": "true", "SM_NUM_GPUS": "0"},
        {"SLURM_ARRAY_TASK_ID": "3", "PBS_ARRAY_INDEX": "3", "LSB_JOBINDEX": "3", "JOB_COMPLETION_INDEX": "3"},
    ],
)
def test_single_process_is_no_task(environ: dict[str, str]) -> None:
    assert found(environ) is None


@pytest.mark.parametrize(
    ("nodes", "per_node", "node", "host", "local_count"),
    [
        ("node1", "2", 0, "127.0.0.1", 2),
        ("node[1-2]", "1(x2)", 1, "node1", 1),
        ("node[01-03,7],gpu5", "2(x3),1,4", 3, "node01", 1),
        ("gpu5,node[01-03,7]", "4,2(x4)", 0, "gpu5", 4),
        ("rack[3-4]node[08,10]", "2(x4)", 2, "rack3node08", 2),
        ("a.example.org,b.example.org", "2,1", 1, "a.example.org", 1),
    ],
)
def test_first_node_and_local_size_are_read_from_lists(
    nodes: str, per_node: str, node: int, host: str, local_count: int
) -> None:
    environ = SRUN | {
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_NODEID": str(node),
        "SLURM_GTIDS": ",".join(map(str, range(local_count))),
    }
    task = found(environ)
    assert task
    assert (task.host, task.local_count) == (host, local_count)


def port(environ: dict[str, str]) -> int:
    task = found(environ)
    assert task
    assert task.port
    return task.port


def test_ports_of_jobs_and_steps_differ_and_are_not_given_to_others() -> None:
    ports = [
        port(SRUN | {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)})
        for job in range(123_450, 123_590)
        for step in range(100)
    ]
    assert len(set(ports)) == len(ports)
    assert min(ports) >= 10_000
    assert max(ports) <= 29_000  # below torchrun's 29500, and below those that Linux gives to connections


@pytest.mark.parametrize("environ", [SRUN, OPEN_MPI, MPICH], ids=["srun", "Open MPI", "MPICH"])
def test_all_tasks_of_a_job_agree_on_job_and_meeting_point(environ: dict[str, str]) -> None:
    ranks = ("SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK")
    first = environ | dict.fromkeys((name for name in (*ranks, "MPI_LOCALRANKID") if name in environ), "0")
    places = []
    for one in (first, environ):
        task = found(one)
        assert task
        places.append((task.rank, meeting_point(task, one)))
    assert [rank for rank, _ in places] == [0, 1]
    assert places[0][1] == places[1][1]


def test_two_jobs_of_mpirun_meet_at_different_ports() -> None:
    assert port(OPEN_MPI) != port(OPEN_MPI | {"PMIX_NAMESPACE": "448921602"})
    one, other = (find_task(MPICH, starter=starter, cpus=None) for starter in (99, 100))
    assert one
    assert other
    assert (one.port, one.job) != (other.port, other.job)


def refusal(environ: dict[str, str]) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        join(dict(environ))
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"SLURM_NTASKS": "2", "SLURM_PROCID": "0"}, "SLURM_PROCID=0, but srun's SLURM_STEP_NUM_TASKS is not set"),
        ({"SLURM_NTASKS": "2", "SLURM_PROCID": "1"}, "SLURM_PROCID=1, but srun's SLURM_STEP_NUM_TASKS is not set"),
        (SRUN | {"SLURM_STEP_NUM_TASKS": "two"}, "SLURM_STEP_NUM_TASKS=two is no number"),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "2x3"}, "SLURM_STEP_TASKS_PER_NODE=2x3 is no list such as 2(x3),1"),
        (SRUN | {"SLURM_NODEID": "1"}, "SLURM_STEP_NODELIST=node1 does not name node 1"),
        (SRUN | {"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST= does not name node 0"),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_LOCAL_RANK is not set"),
        ({"MPI_LOCALRANKID": "0"}, "PMI_RANK is not set"),
    ],
)
def test_incomplete_variables_are_named(environ: dict[str, str], message: str) -> None:
    assert refusal(environ)[0] == message


@pytest.mark.parametrize("name", [name for name in SRUN if name not in ("SLURM_GTIDS", "SLURM_CPUS_ON_NODE")])
def test_every_variable_of_srun_that_is_needed_is_missed(name: str) -> None:
    environ = {key: value for key, value in SRUN.items() if key != name}
    if name == "SLURM_PROCID":
        assert found(environ) is None  # not started by srun
    elif name == "SLURM_NTASKS":
        assert place(environ) == place(SRUN)  # the job's
    else:
        assert name in refusal(environ)[0]


@pytest.mark.parametrize(
    ("environ", "option"),
    [
        (OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "4"}, "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29511 accel_train …"),
        (MPICH | {"PMI_SIZE": "4"}, "mpirun -genv MASTER_ADDR HOST -genv MASTER_PORT 29511 accel_train …"),
    ],
)
def test_mpirun_on_several_machines_needs_a_meeting_point(environ: dict[str, str], option: str) -> None:
    message, hint = refusal(environ)
    assert message == "mpirun has started 4 processes on several machines, and MASTER_ADDR or MASTER_PORT is not set"
    assert hint == f"name the machine of rank 0 and a free port on it: {option}"
    assert refusal(environ | {"MASTER_ADDR": "a"})[0] == message
    task = found(environ)
    assert task
    given = meeting_point(task, environ | {"MASTER_ADDR": "a", "MASTER_PORT": "29511"})
    assert (given["MASTER_ADDR"], given["MASTER_PORT"]) == ("a", "29511")
    assert "GLOO_SOCKET_IFNAME" not in given


@pytest.mark.parametrize(
    ("environ", "launcher", "command"),
    [
        (
            {"FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "2", "FLUX_TASK_LOCAL_ID": "1"},
            "flux run has started several processes (FLUX_TASK_RANK=1)",
            "flux run sh -c 'RANK=$FLUX_TASK_RANK WORLD_SIZE=$FLUX_JOB_SIZE LOCAL_RANK=$FLUX_TASK_LOCAL_ID",
        ),
        (
            {"JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "2", "JSM_NAMESPACE_LOCAL_RANK": "1", **OPEN_MPI},
            "jsrun has started several processes (JSM_NAMESPACE_RANK=1)",
            "jsrun sh -c 'RANK=$JSM_NAMESPACE_RANK WORLD_SIZE=$JSM_NAMESPACE_SIZE",
        ),
        (
            {"PALS_RANKID": "0", "PALS_LOCAL_RANKID": "0", "PMI_SIZE": "2", "PMI_RANK": "0"},
            "mpiexec (PALS) has started several processes (PALS_RANKID=0)",
            "RANK=$PALS_RANKID WORLD_SIZE=$PMI_SIZE LOCAL_RANK=$PALS_LOCAL_RANKID",
        ),
        ({"ALPS_APP_PE": "0"}, "aprun has started several processes (ALPS_APP_PE=0)", "RANK=$ALPS_APP_PE"),
        (
            {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "0"},
            "mpirun_rsh has started several processes (MV2_COMM_WORLD_RANK=0)",
            "RANK=$MV2_COMM_WORLD_RANK",
        ),
        (
            {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "0"},
            "horovodrun has started several processes (HOROVOD_RANK=0)",
            "RANK=$HOROVOD_RANK",
        ),
        ({"PBS_TASKNUM": "2", "PBS_NODENUM": "0"}, "pbsdsh has started several processes (PBS_TASKNUM=2)", "pbsdsh"),
        ({"PBS_TASKNUM": "1", "PBS_NODENUM": "1"}, "pbsdsh has started several processes (PBS_TASKNUM=1)", "pbsdsh"),
        ({"PMIX_RANK": "0"}, "a launcher with PMIx has started several processes (PMIX_RANK=0)", "RANK=$PMIX_RANK"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "a launcher with PMI has started several processes", "RANK=$PMI_RANK"),
    ],
)
def test_launcher_that_cannot_be_joined_is_refused_by_name(
    environ: dict[str, str], launcher: str, command: str
) -> None:
    for given in ({}, {"MASTER_ADDR": "a", "MASTER_PORT": "29511"}):
        message, hint = refusal(environ | given)
        assert message.startswith(launcher)
        assert "each would train the whole run" in message
        assert command in hint
        assert "MASTER_ADDR=HOST MASTER_PORT=29511 accel_train …'" in hint


def test_every_launcher_has_a_test() -> None:
    assert {variable for variable, _ in LAUNCHERS} == {
        *("JSM_NAMESPACE_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID", "FLUX_TASK_RANK", "PALS_RANKID"),
        *("ALPS_APP_PE", "MV2_COMM_WORLD_RANK", "HOROVOD_RANK", "SLURM_PROCID", "PBS_TASKNUM", "PMIX_RANK", "PMI_RANK"),
    }
