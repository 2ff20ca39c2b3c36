"""Debian's SLURM and Open MPI, really run: tasks are one run, which saves when told to stop; none outlives it.

The job that `accel_train job slurm` prints is submitted, queued again, and resumes.
"""

import os
import re
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from helpers.processes import wait_for_end, wait_until
from helpers.runner import Ended, Runner, free_port, read_metrics
from helpers.slurm import cluster, find_program

from accel_train.distributed.environment_check import row_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]

TRAIN = ["train", "--limit", "64", "--model", "mlp", "--batch-size", "8", "--device", "cpu", "--quiet"]
SHORT = [*TRAIN, "--epochs", "2", "--global-batch-size", "32"]
Endless = Callable[..., tuple[psutil.Popen, list[psutil.Process]]]


def place(folder: Path) -> tuple[int, str, int, int]:
    """Return processes, launcher, processes of this machine and threads of a run."""
    (record,) = read_metrics(folder, "run")
    return record["world_size"], record["launched_by"], record["local_world_size"], record["threads"]


def same_weights(folder: Path, *names: str) -> bool:
    return len({(folder / name / "model.safetensors").read_bytes() for name in names}) == 1


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    with cluster() as environment:
        yield environment


@pytest.fixture
def start(run: Runner, request: pytest.FixtureRequest) -> Callable[..., Ended]:
    """Return a function that runs a command line with accel_train, srun and mpirun in PATH."""

    def call(*words: str, **more: str) -> Ended:
        return run.program(words, **environment(request), **more)

    return call


def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    found = dict(request.getfixturevalue("slurm")) if "slurm" in request.fixturenames else {"PATH": os.environ["PATH"]}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**found, **as_root, "PATH": os.pathsep.join((sysconfig.get_path("scripts"), found["PATH"]))}


@pytest.mark.usefixtures("slurm")
def test_srun_is_one_run_alone_and_two_at_once(run: Runner, start: Callable[..., Ended]) -> None:
    commands: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        "srun": (("srun", "-n", "2"), {}),
        "port": (("srun", "-n", "2"), {"MASTER_PORT": str(free_port())}),
        "pmi2": (("srun", "--mpi=pmi2", "-n", "2"), {}),
        "nodes": (("srun", "-N", "2", "-n", "2"), {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}),
    }
    assert run(*SHORT, "--output", "own", processes=2).code == 0
    with ThreadPoolExecutor(2) as pool:
        ended = pool.map(
            lambda name: start(*commands[name][0], "accel_train", *SHORT, "--output", name, **commands[name][1]),
            commands,
        )
        for one in ended:
            assert one.code == 0, one.err
            assert one.out.count(", best ") == 1
    assert same_weights(run.folder, "own", *commands)
    assert {name: place(run.folder / name) for name in commands} == {
        **dict.fromkeys(commands, (2, "srun", 2, 1)),
        "nodes": (2, "srun", 1, 1),
    }


@pytest.mark.usefixtures("slurm")
def test_table_has_every_variable_that_srun_and_mpirun_set(run: Runner, start: Callable[..., Ended]) -> None:
    inherited = set(start("env", "-0").out.split("\0"))
    for launcher in (("srun", "-n", "2"), ("srun", "--mpi=pmi2", "-c", "2", "-n", "2"), ("mpirun", "-n", "2")):
        ended = start(*launcher, "sh", "-c", "env -0 > environment.$$")  # a file each: outputs are mixed
        assert ended.code == 0, ended.err
        for file in run.folder.glob("environment.*"):
            names = {line.partition("=")[0] for line in file.read_text().split("\0") if line not in inherited}
            assert len(names) > 40
            assert not [name for name in names - {"TMPDIR", "PWD", "OLDPWD"} if row_of(name) is None]


SCRIPT = """#!/bin/bash
accel_train {0} --output alone
accel_train {0} --processes 2 --output own
srun -n 1 accel_train {0} --processes 2 --output inside
mpirun -n 2 accel_train {0} --output mpirun
touch done
"""


@pytest.mark.usefixtures("slurm")
def test_script_of_sbatch_is_one_process_and_starts_what_it_asks_for(run: Runner, start: Callable[..., Ended]) -> None:
    (run.folder / "job.sh").write_text(SCRIPT.format(" ".join(SHORT)))
    ended = start("sbatch", "-n", "2", "--output", "job.log", "job.sh")
    assert ended.code == 0, ended.err
    wait_until((run.folder / "done").exists, 100)  # sbatch --wait looks every 30 s
    names = ("alone", "own", "inside", "mpirun")
    assert {name: place(run.folder / name)[:2] for name in names} == {
        "alone": (1, "accel_train"),
        "own": (2, "accel_train"),
        "inside": (2, "accel_train"),
        "mpirun": (2, "mpirun"),
    }
    assert same_weights(run.folder, "own", "inside", "mpirun")


@pytest.mark.usefixtures("slurm")
def test_two_torchruns_of_srun_are_refused_as_two_runs(run: Runner, start: Callable[..., Ended]) -> None:
    torchrun = ("torchrun", "--standalone", "--nproc_per_node", "2", "-m", "accel_train")
    ended = start("srun", "-n", "2", *torchrun, *SHORT, "--output", "out")
    assert ended.code != 0
    assert "error: srun has started 2 tasks, but GROUP_WORLD_SIZE=1: all would train the same run" in ended.err
    assert not (run.folder / "out").exists()


@pytest.mark.usefixtures("slurm")
def test_mpirun_over_two_nodes_of_slurm_asks_for_the_meeting_point(run: Runner, start: Callable[..., Ended]) -> None:
    mpirun = ("salloc", "-N", "2", "-n", "2", "mpirun")
    refused = start(*mpirun, "accel_train", *SHORT, "--output", "out")
    assert refused.code != 0
    assert "error: mpirun has started 2 processes on several machines, and MASTER_ADDR or MASTER_PORT" in refused.err
    assert not (run.folder / "out").exists()
    given = ("-x", "MASTER_ADDR=127.0.0.1", "-x", f"MASTER_PORT={free_port()}", "-x", "GLOO_SOCKET_IFNAME=lo")
    ended = start(*mpirun, *given, "accel_train", *SHORT, "--output", "out")
    assert ended.code == 0, ended.err
    assert place(run.folder / "out") == (2, "mpirun", 1, 1)


def test_mpirun_is_one_run_alone_and_two_at_once(run: Runner, start: Callable[..., Ended]) -> None:
    find_program("mpirun")
    mpirun = ("mpirun", "-n", "2", "accel_train", *SHORT, "--output")
    commands: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        "mpirun": (mpirun, {}),
        "port": (mpirun, {"MASTER_PORT": str(free_port())}),
        "shell": (("mpirun", "-n", "2", "sh", "-c", 'accel_train "$@"; exit $?', "sh", *mpirun[4:]), {}),
    }
    assert run(*SHORT, "--output", "own", processes=2).code == 0
    with ThreadPoolExecutor(2) as pool:
        for one in pool.map(lambda name: start(*commands[name][0], name, **commands[name][1]), commands):
            assert one.code == 0, one.err
            assert one.out.count(", best ") == 1
    assert same_weights(run.folder, "own", *commands)
    assert {place(run.folder / name) for name in commands} == {(2, "mpirun", 2, 1)}


@pytest.fixture
def endless(run: Runner, request: pytest.FixtureRequest) -> Iterator[Endless]:
    """Return a function that starts a run without end, and returns its launcher and its ranks once it has saved."""
    started: list[psutil.Process] = []

    def call(*launcher: str, options: Sequence[str] = ()) -> tuple[psutil.Popen, list[psutil.Process]]:
        variables = {**os.environ, **environment(request), "OMP_NUM_THREADS": "1"}
        with (run.folder / "log").open("w") as log:
            program = psutil.Popen(
                [
                    *launcher,
                    "accel_train",
                    *TRAIN,
                    "--epochs",
                    "1000000",
                    *options,
                    "--output",
                    str(run.folder / "out"),
                ],
                cwd=run.folder,
                env=variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(program)
        wait_until(lambda: bool(list(run.folder.glob("out/checkpoints/update_*"))), 60)
        started.extend(ranks := [process for process in psutil.process_iter() if trains_in(process, run.folder)])
        assert len(ranks) == 2
        return program, ranks

    yield call
    for process in started:
        if process.is_running():
            process.kill()
            process.wait(10)


PACED = """
import time
from pathlib import Path

import torch

class Images:
    classes = ("a", "b")

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if not Path("go").exists():
            time.sleep(0.03)
        return torch.randint(200, (1, 8, 8), generator=torch.Generator().manual_seed(i), dtype=torch.uint8), i % 2

def data():
    return Images(640), Images(4)
"""
"""The code of a module: data whose updates of 32 images take half a second on two processes until there is `go`."""
OF_JOB = [*("--data", "paced:data", "--model", "mlp", "--batch-size", "8", "--global-batch-size", "32", "--exact")]
OF_JOB += ["--epochs", "15", "--save-every", "10updates", "--workers", "0", "--device", "cpu", "--report=false"]


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("slurm")
def test_printed_job_saves_when_requeued_and_at_its_time_limit_and_ends_bit_identical(
    run: Runner, start: Callable[..., Ended]
) -> None:
    (run.folder / "paced.py").write_text(PACED)
    printed = run(
        "job",
        "slurm",
        "--gpus-per-node",
        "0",
        "--ntasks-per-node",
        "2",
        "--time",
        "1h",
        "--grace",
        "9min",
        "--",
        *OF_JOB,
    )
    assert printed.code == 0, printed.err
    (run.folder / "job.sh").write_text(printed.out)
    job = start("sbatch", "--parsable", "job.sh").out.strip()
    log = run.folder / f"accel-train-{job}.log"

    def stopped_by(name: str) -> list[int]:
        """Return the updates at which a signal has stopped the run, each saved."""
        return [int(update) for update in re.findall(rf"^stopped by {name} after update (\d+) \(saved\)", text(), re.M)]

    def text() -> str:
        return log.read_text() if log.exists() else ""

    def shown() -> dict[str, str]:
        words = start("scontrol", "--oneliner", "show", "job", job).out.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for_requeue(number: int) -> None:
        wait_until(lambda: shown()["Restarts"] == str(number) and shown()["JobState"] == "PENDING", 300)
        time.sleep(2)  # SLURM revokes credentials to the second, and refuses a start in that of the requeue

    wait_until(lambda: "saved checkpoint" in text(), 300)
    assert start("scontrol", "requeue", job).code == 0  # as preemption does
    wait_until(lambda: bool(stopped_by("SIGTERM")), 300)
    wait_for_requeue(1)
    (preempted,) = stopped_by("SIGTERM")
    assert start("scontrol", "update", f"JobId={job}", "StartTime=now").code == 0  # SLURM would wait two minutes
    wait_until(lambda: f"saved checkpoint update {preempted // 10 * 10 + 10}" in text(), 300)
    hours, minutes, _ = map(int, shown()["RunTime"].split(":"))
    limit = 60 * hours + minutes + 8  # minutes: less than 9 are left
    assert start("scontrol", "update", f"JobId={job}", f"TimeLimit={limit}").code == 0
    wait_until(lambda: bool(stopped_by("SIGUSR1")), 300)  # slurmctld looks every 30 s
    wait_for_requeue(2)
    (limited,) = stopped_by("SIGUSR1")
    assert limited > preempted
    (run.folder / "go").touch()
    assert start("scontrol", "update", f"JobId={job}", "StartTime=now", "TimeLimit=60").code == 0
    wait_until(lambda: shown()["JobState"] == "COMPLETED", 300)
    alone = run("train", *OF_JOB, "--output", "alone")
    assert alone.code == 0, alone.err
    resumed = re.findall(r"^resumed at epoch \d+ of 15, update (\d+)$", text(), re.M)
    assert [int(update) for update in resumed] == [preempted, limited]
    (folder,) = (run.folder / "runs").iterdir()
    assert (folder / "model.safetensors").read_bytes() == (run.folder / "alone" / "model.safetensors").read_bytes()


def trains_in(process: psutil.Process, folder: Path) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return str(folder / "out") in words and Path(words[0]).name.startswith("python")


def test_scancel_saves_and_ends_the_tasks_of_srun(
    run: Runner, start: Callable[..., Ended], endless: Endless, slurm: dict[str, str]
) -> None:
    srun, ranks = endless("srun", "-n", "2", "--job-name", "endless")
    assert start("scancel", "--name", "endless").code == 0
    assert srun.wait(30) == 143
    for rank in ranks:
        wait_for_end(rank, 10)
    log = (run.folder / "log").read_text()
    assert re.search(r"^stopped by SIGTERM after update \d+ \(saved\)", log, re.M), log


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_death_of_the_launcher_ends_the_tasks(endless: Endless, slurm: dict[str, str], launcher: str) -> None:
    program, ranks = endless(launcher, "-n", "2")
    program.kill()
    program.wait(10)
    for rank in ranks:
        wait_for_end(rank, 15)


@pytest.mark.usefixtures("slurm")
def test_hung_task_is_reported_and_killed(run: Runner, endless: Endless) -> None:
    program, ranks = endless("srun", "-n", "2", options=["--timeout", "5"])
    hung = next(rank for rank in ranks if rank.environ()["SLURM_PROCID"] == "1")
    hung.suspend()
    assert program.wait(40) != 0
    log = (run.folder / "log").read_text()
    assert f"rank 1 (process {hung.pid} on" in log
    assert "has not answered for 5 s (--timeout): killed" in log
