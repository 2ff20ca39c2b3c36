"""Processes with the variables of srun or mpirun are one run, or one refusal; test_slurm.py runs the real programs."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.cli import assert_refused
from helpers.runner import Runner, read_metrics
from torch.distributed import TCPStore

QUIET = [
    *("train", "--limit", "64", "--epochs", "2", "--model", "mlp", "--batch-size", "8", "--global-batch-size", "32"),
    *("--device", "cpu", "--quiet"),
]


def of_srun(rank: int, job: int = 7) -> dict[str, str]:
    """Return the variables of one of two tasks of srun on one node."""
    return {
        **{"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"},
        **{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0", "SLURM_GTIDS": "0,1"},
        **{"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "node1", "SLURM_CPUS_ON_NODE": "2"},
    }


def of_open_mpi(rank: int) -> dict[str, str]:
    return {
        **{"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": f"test{os.getpid()}"},
        **{"OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
    }


def of_mpich(rank: int) -> dict[str, str]:
    return {"PMI_RANK": str(rank), "PMI_SIZE": "2", "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "2"}


def job_number() -> int:
    """Return a number whose port no other test process uses."""
    return os.getpid()


def place(folder: Path) -> tuple[int, str, int, int]:
    """Return processes, launcher, strategy and threads of a finished run."""
    (record,) = read_metrics(folder, "run")
    return record["world_size"], record["launched_by"], record["local_world_size"], record["threads"]


def same_weights(folder: Path, *names: str) -> bool:
    return len({(folder / name / "model.safetensors").read_bytes() for name in names}) == 1


def test_tasks_are_one_run_with_the_weights_of_two_processes(run: Runner) -> None:
    assert run(*QUIET, "--output", "own", processes=2).code == 0
    launchers: dict[str, Callable[[int], dict[str, str]]] = {
        "srun": lambda rank: of_srun(rank, job_number()),
        "mpirun": of_open_mpi,
        "mpich": of_mpich,
    }
    for name, variables in launchers.items():
        ended = run.tasks(*QUIET, "--output", name, environments=[variables(rank) for rank in range(2)])
        assert ended.code == 0, ended.err
        assert ended.out.count(", best ") == 1
        assert place(run.folder / name) == (2, name.replace("mpich", "mpirun"), 2, 1)
    assert same_weights(run.folder, "own", *launchers)
    assert sorted(path.name for path in run.folder.iterdir()) == ["mpich", "mpirun", "own", "srun"]


def test_evaluation_by_tasks_is_one_evaluation(run: Runner) -> None:
    assert run(*QUIET, "--output", "out").code == 0
    alone = run("evaluate", "out", "--json").records
    tasks = [of_srun(rank, job_number()) for rank in range(2)]
    ended = run.tasks("evaluate", "out", "--json", environments=tasks)
    assert ended.code == 0, ended.err
    (together,) = ended.records
    assert together["images"] == alone[0]["images"]
    assert together["accuracy"] == alone[0]["accuracy"]


API = """
import accel_train, sys
data = "synthetic:64,1,8,8,2"
config = accel_train.TrainConfig(data=data, epochs=1, model="mlp", batch_size=8, device="cpu", report=False)
(folder,) = [event.run_folder for event in accel_train.train(config) if event.kind == "run"]
sys.stdout.write(accel_train.evaluate(folder).weights + "\\n")
"""


def test_script_of_a_user_is_one_run(run: Runner) -> None:
    ended = run.tasks("-c", API, environments=[of_srun(rank, job_number()) for rank in range(2)])
    assert ended.code == 0, ended.err
    assert ended.out == "last\n" * 2
    (folder,) = (run.folder / "runs").iterdir()
    assert place(folder)[:2] == (2, "srun")


@pytest.mark.parametrize(
    ("words", "environments", "named"),
    [
        ((), [{"SLURM_NTASKS": "2", "SLURM_PROCID": "1"}], ("SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS", "SLURM_*")),
        ((), [{"SLURM_NTASKS": "2", "SLURM_PROCID": "0"}], ("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS")),
        ((), [{"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}], ("OMPI_COMM_WORLD_LOCAL_RANK is not set",)),
        (("--processes", "3"), [of_srun(0), of_srun(1)], ("--processes 3, but the launcher started 2",)),
        (
            (),
            [{"FLUX_TASK_RANK": f"{i}", "FLUX_JOB_SIZE": "2", "FLUX_TASK_LOCAL_ID": f"{i}"} for i in range(2)],
            ("flux run has started several processes", "RANK=$FLUX_TASK_RANK"),
        ),
        (
            (),
            [of_open_mpi(0) | {"OMPI_COMM_WORLD_SIZE": "4"}, of_open_mpi(1) | {"OMPI_COMM_WORLD_SIZE": "4"}],
            ("4 processes on several machines", "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29511"),
        ),
    ],
    ids=["srun, rank 1", "srun, rank 0", "Open MPI", "--processes", "flux", "several machines"],
)
def test_tasks_that_cannot_be_one_run_are_one_refusal(
    run: Runner, words: tuple[str, ...], environments: list[dict[str, str]], named: tuple[str, ...]
) -> None:
    ended = run.tasks(*QUIET, *words, environments=environments)
    assert ended.code == 2
    assert_refused(ended, *named)
    assert list(run.folder.iterdir()) == []


@pytest.mark.parametrize("command", [("pack", "a", "b"), ("bench",)])
def test_commands_of_one_process_refuse_several_tasks(run: Runner, command: tuple[str, ...]) -> None:
    ended = run.tasks(*command, environments=[of_srun(0), of_srun(1)])
    assert ended.code == 2
    assert_refused(ended, f"`accel_train {command[0]}` is one process, but srun has started 2", "srun -n 1")


def test_task_does_not_join_another_job_that_meets_at_its_port(run: Runner) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    store.set("job", "6.0")
    ended = run.tasks(*QUIET, environments=[of_srun(1) | {"MASTER_PORT": str(store.port)}])
    assert ended.code == 2
    assert_refused(ended, f"rank 1 cannot use 127.0.0.1:{store.port}: job 6.0 meets there, and this is job 7.0")


def test_rank_0_whose_port_is_taken_is_refused(run: Runner) -> None:
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ended = run.tasks(*QUIET, environments=[of_srun(0) | {"MASTER_PORT": str(port)}])
    assert ended.code == 2
    assert_refused(ended, f"rank 0 cannot use 127.0.0.1:{port}", "set MASTER_PORT to a free one")
