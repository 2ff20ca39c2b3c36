"""Runs programs to their end, and reads what they print and write."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from helpers import warm

LAUNCHERS: dict[str, Callable[[int], list[str]]] = {
    "accel_train": lambda processes: [sys.executable, "-m", "accel_train"],
    "accelerate": lambda processes: [
        *(sys.executable, "-m", "accelerate.commands.launch", "--num_machines", "1", "--mixed_precision", "no"),
        *("--dynamo_backend", "no", "--num_processes", str(processes), *(["--multi_gpu"] if processes > 1 else [])),
        *("-m", "accel_train"),
    ],
    "torchrun": lambda processes: [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)),
        *("-m", "accel_train"),
    ],
}
"""The command line of each launcher, by number of processes; `accel_train` takes the number by --processes."""


@dataclass(frozen=True)
class Ended:
    """The result of a program that has ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """The JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Runner:
    """Runs programs in a folder; none outlives its test."""

    folder: Path

    def __call__(
        self,
        *arguments: str | Path,
        processes: int = 1,
        launcher: str = "accel_train",
        timeout: float = 250,
        forked: bool = True,
        **environment: str,
    ) -> Ended:
        """Run accel_train on N processes of one thread each; `train` writes no report, unless ``--report`` is given."""
        words = [*LAUNCHERS[launcher](processes), *without_report(*map(str, arguments))]
        if launcher == "accel_train" and processes > 1:
            words += ["--processes", str(processes)]
        return (self.python if forked else self.program)(words, timeout=timeout, **environment)

    def python(self, words: Sequence[str | Path], timeout: float = 250, **environment: str) -> Ended:
        """Run a command that begins with `sys.executable`, forked, and so are the ranks that it starts."""
        return self._finish([[*map(str, words)]], timeout, [environment])

    def after(self, commands: str, *words: str | Path, timeout: float = 250) -> Ended:
        """Run accel_train, forked, after commands of a shell: mounts, limits, variables, other streams."""
        command = [*LAUNCHERS["accel_train"](1), *without_report(*map(str, words))]
        return self._finish([command], timeout, [{}], after=commands)

    def tasks(self, *words: str | Path, environments: Sequence[Mapping[str, str]], timeout: float = 250) -> Ended:
        """Run accel_train, or the script after `-c`, in a forked process per environment, as srun and mpirun do.

        When one fails, the others are killed.
        """
        command = [*(() if words[0] == "-c" else LAUNCHERS["accel_train"](1)[1:]), *without_report(*map(str, words))]
        return self._finish([[sys.executable, *command]] * len(environments), timeout, environments)

    def script(self, *words: str | Path, processes: int, timeout: float = 250, **environment: str) -> Ended:
        """Run a Python script, or `-c CODE`, on forked ranks with the environment that a launcher gives them.

        When one fails, the others are killed.
        """
        environments = [environment | of_rank for of_rank in rank_environments(processes)]
        return self._finish([[sys.executable, *map(str, words)]] * processes, timeout, environments)

    def program(self, words: Sequence[str], timeout: float = 250, **environment: str) -> Ended:
        """Start any program; after `timeout` seconds its process group is killed."""
        process = subprocess.Popen(
            words,
            cwd=self.folder,
            env=self._environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            pytest.fail(f"{' '.join(words)} took longer than {timeout} s\n{out}\n{err}")
        return Ended(process.returncode, out, err)

    def _finish(
        self,
        commands: Sequence[Sequence[str]],
        timeout: float,
        environments: Sequence[Mapping[str, str]],
        after: str = "",
    ) -> Ended:
        """Run forked programs until all have ended or one has failed, and collect their output."""
        with tempfile.TemporaryDirectory() as name:
            streams = Path(name)
            processes = [
                warm.start(words, folder=self.folder, environment=self._environment(own), streams=streams, after=after)
                for words, own in zip(commands, environments, strict=True)
            ]
            try:
                codes = _wait(processes, timeout)
            finally:
                for process in processes:
                    assert process.pid
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            out, err = ((streams / kind).read_text("utf-8", "backslashreplace") for kind in ("out", "err"))
        failure = next(filter(None, codes), 0)
        if not failure and None in codes:
            pytest.fail(f"{' '.join(commands[0])} took longer than {timeout} s\n{out}\n{err}")
        return Ended(failure, out, err)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**clean_environment(), "HF_HOME": str(self.folder / "hf_home"), **more}


def of_python(program: str, *words: str | Path) -> list[str]:
    """Return a command line of accel_train, accelerate or torchrun as one of Python, which can be forked."""
    if program == "accelerate":
        program, *words = f"accelerate.commands.{words[0]}", *words[1:]
    return [sys.executable, "-m", {"torchrun": "torch.distributed.run"}.get(program, program), *map(str, words)]


def without_report(*words: str) -> list[str]:
    """Return the words of a command; those of `train` with the option for no report, which takes seconds, if they may.

    With `=`, the next word cannot be read as the value of the option.
    """
    decided = words[:1] != ("train",) or any(word.startswith(("--report", "--no-report")) for word in words)
    return list(words) if decided else ["train", "--report=false", *words[1:]]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without the variables of launchers and terminals."""
    of_clusters = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "MPI_LOCAL")
    launchers = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    others = {"NO_COLOR", "COLUMNS", "LINES", "TORCHINDUCTOR_CACHE_DIR"}  # torch sets the last
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in launchers | others and not name.startswith(("ACCELERATE_", "ACCEL_TRAIN_", *of_clusters))
    }
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


def _wait(processes: Sequence[BaseProcess], seconds: float) -> list[int | None]:
    """Return the exit codes when all have ended, one has failed, or the time is over."""
    deadline = time.monotonic() + seconds
    while (running := [process for process in processes if process.exitcode is None]) and (
        not any(process.exitcode for process in processes) and time.monotonic() < deadline
    ):
        wait([process.sentinel for process in running], deadline - time.monotonic())
    return [process.exitcode for process in processes]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rank_environments(processes: int) -> list[dict[str, str]]:
    """Return the variables by which a launcher tells each rank its place."""
    port = free_port()
    places: list[dict[str, object]] = [
        {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "MASTER_PORT": port}
        for rank in range(processes)
    ]
    addresses = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    return [addresses | {name: str(number) for name, number in place.items()} for place in places]


def read_metrics(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the records of one kind in a run's metrics.jsonl."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]
