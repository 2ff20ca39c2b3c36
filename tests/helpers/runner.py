"""What the tests share: starting the program as its users do, and small data to start it on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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
"""Words that start a command on so many processes; `accel_train` gets the number by --processes."""


@dataclass(frozen=True)
class Ended:
    """A program that has ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """The JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Runner:
    """Starts programs in a folder of the test's own; none outlives its test."""

    folder: Path

    def __call__(
        self,
        *arguments: str | Path,
        processes: int = 1,
        launcher: str = "accel_train",
        timeout: float = 120,
        **environment: str,
    ) -> Ended:
        """Run accel_train with these arguments on so many processes of one thread each."""
        words = [*LAUNCHERS[launcher](processes), *map(str, arguments)]
        if launcher == "accel_train" and processes > 1:
            words += ["--processes", str(processes)]
        return self.program(words, timeout=timeout, **environment)

    def program(self, words: Sequence[str], timeout: float = 120, **environment: str) -> Ended:
        """Run any program; its whole group is killed if it takes longer than `timeout` seconds."""
        process = subprocess.Popen(
            words,
            cwd=self.folder,
            env=_environment() | {"HF_HOME": str(self.folder / "hf_home")} | environment,
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


def _environment() -> dict[str, str]:
    """Return this process's environment without what a launcher or a terminal would have set."""
    left_out = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NO_COLOR")
    kept = {
        k: v for k, v in os.environ.items() if k not in left_out and not k.startswith(("ACCELERATE_", "ACCEL_TRAIN_"))
    }
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


def read_metrics(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the records of one kind in a run's metrics.jsonl."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]
