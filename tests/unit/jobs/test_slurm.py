"""The batch script for SLURM; tests/distributed/test_slurm.py submits one."""

import sys
from pathlib import Path
from typing import Any

import pytest

from accel_train.config.job_panel import SlurmJob
from accel_train.jobs.slurm import slurm_file


def script(*train: str, **options: Any) -> str:
    job = SlurmJob(**options)
    return slurm_file(["accel_train", "job", "slurm"], train, {**job.model_dump(), "tasks": job.tasks})


def directives(text: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH ")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_directives_are_what_is_asked_for() -> None:
    asked = {"nodes": 2, "gpus_per_node": 8, "cpus_per_task": 6, "mem": "64G", "time": "1d3h50m", "grace": "5min"}
    text = script("--epochs", "90", **asked, partition="gpu", account="physics", job_name="my-run")
    assert directives(text) == {
        **{"job-name": "my-run", "output": "%x-%j.log", "open-mode": "append", "nodes": "2", "ntasks-per-node": "8"},
        **{"gpus-per-node": "8", "cpus-per-task": "6", "mem": "64G", "partition": "gpu", "account": "physics"},
        **{"time": "1-03:50:00", "signal": "USR1@300", "requeue": ""},
    }
    assert "\nexport SRUN_CPUS_PER_TASK=6" in text
    assert "\nsrun accel_train train --epochs 90\n" in text


def test_only_what_is_asked_for_is_there() -> None:
    assert directives(script()).keys() == {
        *("job-name", "output", "open-mode", "nodes", "ntasks-per-node", "gpus-per-node", "signal", "requeue")
    }
    assert "gpus-per-node" not in directives(script(gpus_per_node=0))
    assert directives(script(gpus_per_node=0))["ntasks-per-node"] == "1"


@pytest.mark.parametrize(("seconds", "text"), [("90s", "00:01:30"), ("4h", "04:00:00"), ("1d", "1-00:00:00")])
def test_time_is_written_as_slurm_reads_it(seconds: str, text: str) -> None:
    assert directives(script(time=seconds, grace="1s"))["time"] == text


def test_programs_of_this_python_come_first() -> None:
    assert f'\nexport PATH={Path(sys.prefix) / "bin"}:"$PATH"' in script()
