"""Launcher and option decide the number of processes to start; the environment names launcher, rank and cores."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from accel_train.distributed import launcher
from accel_train.distributed.environment import (
    asked_threads,
    available_cores,
    launched,
    launched_rank,
    launcher_name,
    launcher_pid,
    local_rank,
    local_world_size,
    restart_notes,
    world_size,
)
from accel_train.distributed.launcher import check_processes, processes_to_start
from accel_train.errors import UserError

OURS = ("ACCEL_TRAIN_", "ACCELERATE_", "TORCHELASTIC_")
THEIRS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets variables in an environment without those of a launcher."""
    for name in list(os.environ):
        if name.startswith(OURS) or name in THEIRS:
            monkeypatch.delenv(name)

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


LAUNCHED = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(("asked", "count"), [(None, 1), (1, 1), (3, 3)])
def test_without_launcher_the_option_decides(environment: Callable[..., None], asked: int | None, count: int) -> None:
    assert processes_to_start(asked) == count


@pytest.mark.parametrize(("cores", "most"), [(2, 16), (8, 32)])
def test_more_processes_than_a_machine_can_run_are_refused(
    environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch, cores: int, most: int
) -> None:
    monkeypatch.setattr(launcher, "available_cores", lambda: cores)
    assert processes_to_start(most) == most
    with pytest.raises(UserError) as caught:
        processes_to_start(most + 1)
    assert caught.value.message == f"{most + 1} processes are too many for {cores} cores: at most {most}"
    assert caught.value.hint == f"use --processes {cores}, and --accumulate for a larger global batch"


@pytest.mark.parametrize("asked", [None, 2])
def test_launched_process_starts_no_others(environment: Callable[..., None], asked: int | None) -> None:
    environment(**LAUNCHED)
    assert processes_to_start(asked) == 1


@pytest.mark.parametrize("asked", [1, 3])
def test_option_that_contradicts_the_launcher_is_rejected(environment: Callable[..., None], asked: int) -> None:
    environment(**LAUNCHED)
    with pytest.raises(UserError) as caught:
        processes_to_start(asked)
    assert caught.value.message == f"--processes {asked}, but the launcher started 2"
    assert caught.value.hint == f"leave --processes out, or have the launcher start {asked}"


def test_process_checks_that_it_is_one_of_as_many_as_asked(environment: Callable[..., None]) -> None:
    for asked in (None, 1):
        check_processes(asked)
    with pytest.raises(UserError, match="2 processes asked for, but this is one of 1"):
        check_processes(2)
    environment(**LAUNCHED)
    for asked in (None, 2):
        check_processes(asked)
    with pytest.raises(UserError, match="1 process asked for, but this is one of 2"):
        check_processes(1)


def test_master_port_alone_starts_what_the_option_asks(environment: Callable[..., None]) -> None:
    environment(MASTER_PORT="29511")
    assert processes_to_start(None) == 1
    assert processes_to_start(2) == 2


def test_environment_is_checked_before_processes_are_counted(environment: Callable[..., None]) -> None:
    environment(ACCELERATE_GRADIENT_ACCUMULATION_STEPS="4")
    for check in (processes_to_start, check_processes):
        with pytest.raises(UserError, match="asks for gradient accumulation"):
            check(None)


def test_rank_is_0_and_local_world_size_1_unless_launched(environment: Callable[..., None]) -> None:
    environment(LOCAL_WORLD_SIZE="4")
    assert (launched(), launched_rank(), local_world_size()) == (False, 0, 1)
    environment(**LAUNCHED)
    assert (launched(), launched_rank(), local_world_size()) == (True, 1, 4)
    assert not launched({"RANK": "0"})
    assert not launched({"WORLD_SIZE": "1"})
    assert not launched({"RANK": "", "WORLD_SIZE": " "})


def test_malformed_place_is_that_of_a_process_alone(environment: Callable[..., None]) -> None:
    environment(RANK="x", WORLD_SIZE="many", LOCAL_RANK="-1", LOCAL_WORLD_SIZE="")
    assert (launched_rank(), world_size(), local_rank(), local_world_size()) == (0, 1, 0, 1)
    environment(ACCEL_TRAIN_LAUNCHER_PID="me")
    assert launcher_pid() == os.getppid()


@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({}, None),
        ({"OMP_NUM_THREADS": ""}, None),
        ({"OMP_NUM_THREADS": "4,3,2"}, 4),
        ({"MKL_NUM_THREADS": "3"}, 3),
        ({"MKL_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"MKL_NUM_THREADS": " ", "OMP_NUM_THREADS": "2"}, 2),
    ],
)
def test_environment_asks_for_threads_as_torch_reads_it(variables: dict[str, str], threads: int | None) -> None:
    assert asked_threads(variables) == threads


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "accel_train"),
        ({"TORCHELASTIC_RUN_ID": "none"}, "torchrun"),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, "accel_train"),  # set by hand
        ({"ACCELERATE_DYNAMO_MODE": "default", "TORCHELASTIC_RUN_ID": "none"}, "accelerate launch"),
        ({"ACCELERATE_DYNAMO_MODE": "default", "ACCEL_TRAIN_LAUNCHER_PID": "3"}, "accel_train"),
    ],
)
def test_launcher_name_follows_its_variables(
    environment: Callable[..., None], variables: dict[str, str], name: str
) -> None:
    environment(**variables)
    assert launcher_name() == name


@pytest.mark.parametrize(
    ("variables", "pid"),
    [
        ({}, None),  # a shell
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, None),
        ({"TORCHELASTIC_RUN_ID": "none"}, os.getppid()),
        ({"ACCELERATE_DYNAMO_MODE": "default"}, os.getppid()),
        ({"ACCELERATE_DYNAMO_MODE": "default", "ACCEL_TRAIN_LAUNCHER_PID": "3"}, 3),
    ],
)
def test_launcher_pid_is_none_for_a_shell(
    environment: Callable[..., None], variables: dict[str, str], pid: int | None
) -> None:
    environment(**variables)
    assert launcher_pid() == pid


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone can restrict a process to cores")
def test_available_cores_are_those_that_this_process_may_use(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    for cpu in allowed:
        (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text("0-1\n")
    assert available_cores(tmp_path) == 1  # all are threads of one core
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert available_cores(tmp_path / "nothing") == len(allowed)


@pytest.mark.parametrize(
    ("changed", "noted"),
    [
        ({}, True),
        ({"TORCHELASTIC_MAX_RESTARTS": "0"}, False),
        ({"GROUP_WORLD_SIZE": "1"}, False),
        ({"TORCHELASTIC_USE_AGENT_STORE": "False"}, False),  # with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    ],
)
def test_launcher_that_cannot_take_back_a_host_is_noted(
    environment: Callable[..., None], changed: dict[str, str], noted: bool
) -> None:
    launched = {"RANK": "0", "WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "2", "TORCHELASTIC_MAX_RESTARTS": "3"}
    environment(**{**launched, "TORCHELASTIC_USE_AGENT_STORE": "True", **changed})
    assert ["a host that is lost cannot come back" in note for note in restart_notes()] == [True] * noted
