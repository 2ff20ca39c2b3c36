"""The tasks of srun and mpirun get torchrun's variables, unless others contradict or have set them."""

import os
from typing import Any

import pytest

from accel_train.distributed import environment, schedulers
from accel_train.distributed.accelerate_launch import Asked
from accel_train.distributed.schedulers import join, rank_in
from accel_train.errors import UserError

SRUN = {
    **{"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3", "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0"},
    **{"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "n1"},
    **{"SLURM_GTIDS": "0,1", "SLURM_CPUS_ON_NODE": "8"},
}
PLACE = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
JOINED = {
    **PLACE,
    **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "10920"},
    **{"ACCEL_TRAIN_JOB_LAUNCHER": "srun", "ACCEL_TRAIN_JOB_ID": "7.3", "ACCEL_TRAIN_JOB_CPUS": "8"},
}


def added(given: dict[str, str]) -> dict[str, str]:
    """Return what join() sets in this environment."""
    environ = dict(given)
    join(environ)
    return {name: environ[name] for name in environ if name not in given or environ[name] != given[name]}


def refusal(**given: str) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        join(SRUN | given)
    return caught.value.message, caught.value.hint


def test_task_gets_the_variables_of_torchrun() -> None:
    assert added(SRUN) == JOINED
    assert added({}) == {}


def test_joining_twice_changes_nothing() -> None:
    assert added(SRUN | JOINED) == {}


@pytest.mark.parametrize(
    "given",
    [
        {"MASTER_PORT": "29511"},
        {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29511"},
        {"WORLD_SIZE": "2", "MASTER_ADDR": "n1"},  # as many batch scripts export them
        {"LOCAL_RANK": "1"},
    ],
)
def test_variables_of_the_user_win(given: dict[str, str]) -> None:
    expected = {name: value for name, value in JOINED.items() if name not in given}
    assert added(SRUN | given) == expected


@pytest.mark.parametrize("given", [dict.fromkeys(PLACE, ""), {"MASTER_ADDR": " ", "MASTER_PORT": ""}])
def test_empty_variables_are_unset(given: dict[str, str]) -> None:
    assert added(SRUN | given) == JOINED


def test_terminal_of_mpirun_gets_no_progress_bar() -> None:
    mpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    mpi |= {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "TERM": "xterm"}
    assert added(mpi)["TERM"] == "dumb"
    assert "TERM" not in added(SRUN | {"TERM": "xterm"})


@pytest.mark.parametrize(
    "between",
    [
        {**PLACE, "GROUP_WORLD_SIZE": "2"},  # torchrun --nnodes 2
        {**PLACE, "WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "2"},
        PLACE,  # set by hand
        {**PLACE, "WORLD_SIZE": "8"},
    ],
)
def test_launcher_between_srun_and_the_process_wins(between: dict[str, str]) -> None:
    assert added(SRUN | between) == {}


@pytest.mark.parametrize(
    ("between", "named"),
    [
        ({**PLACE, "GROUP_WORLD_SIZE": "1"}, "GROUP_WORLD_SIZE=1"),  # a torchrun of 2 processes in each of 2 tasks
        ({**PLACE, "RANK": "0", "WORLD_SIZE": "1"}, "WORLD_SIZE=1"),  # exported by a batch script
    ],
)
def test_launcher_between_of_which_each_makes_its_own_run_is_refused(between: dict[str, str], named: str) -> None:
    message, hint = refusal(**between)
    assert message == f"srun has started 2 tasks, but {named}: all would train the same run"
    assert "--nnodes 2" in hint


@pytest.mark.parametrize(("name", "value"), [("WORLD_SIZE", "4"), ("RANK", "0"), ("LOCAL_RANK", "0")])
def test_number_that_contradicts_srun_is_refused(name: str, value: str) -> None:
    assert refusal(**{name: value}) == (
        f"{name}={value}, but srun has started rank 1 of 2",
        f"unset {name}: srun sets it",
    )


@pytest.mark.parametrize(("processes", "refused"), [(1, True), (4, True), (2, False), (None, False)])
def test_accelerate_launch_that_asks_for_another_number_is_refused(
    monkeypatch: pytest.MonkeyPatch, processes: int | None, refused: bool
) -> None:
    monkeypatch.setattr(schedulers, "asked_of_accelerate", lambda environ: Asked(processes, 1, None, {}))
    if refused:
        message, hint = refusal()
        assert message == f"srun has started 2 tasks, but accelerate launch was asked for {processes}"
        assert hint == "leave accelerate launch out: srun -n 2 accel_train …"
    else:
        assert added(SRUN) == JOINED


def test_refused_task_knows_its_place_so_that_one_process_reports_it() -> None:
    environ = {"FLUX_TASK_RANK": "5", "FLUX_JOB_SIZE": "8", "FLUX_TASK_LOCAL_ID": "1"}
    with pytest.raises(UserError, match="flux run"):
        join(environ)
    assert (environ["RANK"], environ["WORLD_SIZE"], environ["LOCAL_RANK"]) == ("5", "8", "1")


@pytest.mark.parametrize(
    ("environ", "rank"),
    [({}, None), (PLACE, 1), (SRUN, 1), (SRUN | {"SLURM_STEP_NUM_TASKS": "1"}, None), (PLACE | {"RANK": "0"}, 0)],
)
def test_rank_of_another_process_is_read_from_its_environment(environ: dict[str, str], rank: int | None) -> None:
    assert rank_in(environ) == rank


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the environment of this process to what a task of srun has after joining."""

    def put(**more: str) -> None:
        monkeypatch.setattr(os, "environ", dict(JOINED | more))
        monkeypatch.setattr(environment, "launched", lambda environ=os.environ: True)

    return put


def test_launcher_is_the_scheduler_and_its_death_ends_the_task(environ: Any) -> None:
    environ()
    assert environment.launcher_name() == "srun"
    assert environment.launcher_pid() == environment._PARENT


@pytest.mark.parametrize(
    ("own", "cores", "of_all", "local_count", "share"),
    [
        (8, 8, "8", 2, 4),  # not bound
        (4, 4, "8", 2, 4),  # bound, each to its own half
        (1, 1, "2", 2, 1),
        (8, 8, "16", 4, 4),  # bound to sockets that two share
        (16, 8, "16", 2, 4),  # two threads a core
        (8, 4, "16", 2, 4),
        (8, 8, "4", 2, 4),  # SLURM counts cores, the kernel threads
        (2, 2, "2", 8, 1),  # more processes than cores
        (8, 8, None, 2, 4),
    ],
)
def test_cores_that_tasks_do_not_share_are_not_divided(
    environ: Any,
    monkeypatch: pytest.MonkeyPatch,
    own: int,
    cores: int,
    of_all: str | None,
    local_count: int,
    share: int,
) -> None:
    environ(LOCAL_WORLD_SIZE=str(local_count), WORLD_SIZE=str(local_count))
    del os.environ["ACCEL_TRAIN_JOB_CPUS"]
    if of_all:
        os.environ["ACCEL_TRAIN_JOB_CPUS"] = of_all
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(own)))
    monkeypatch.setattr(environment, "available_cores", lambda: cores)
    assert environment.share_of_cores() == share
