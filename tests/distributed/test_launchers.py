"""Every launcher starts what was asked or reports why not; the commands are those of the README."""

import os
import socket
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from helpers.marks import slow
from helpers.runner import Ended, Runner, of_python, read_metrics

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "accelerate_configs"
SMALL = "--epochs 1 --limit 128 --batch-size 16 --global-batch-size 64"
ON_TWO = {"world_size": 2, "local_world_size": 2, "backend": "gloo", "strategy": "DDP", "accumulate": 2}
ON_ONE = {"world_size": 1, "local_world_size": 1, "backend": None, "strategy": "single process", "accumulate": 4}
ON_CPU = {"device_asked": "auto", "device": "cpu", "precision": "fp32", "global_batch": 64}
ALONE = {**ON_CPU, **ON_ONE, "launched_by": "accel_train"}
PAIR = {**ON_CPU, **ON_TWO, "launched_by": "accel_train"}
ACCELERATE = {"launched_by": "accelerate launch"}
FOR_GPUS: dict[str, dict[str, Any]] = {
    "gpu": {"distributed_type": "NO", "num_processes": 1, "num_machines": 1},
    "ddp": {"distributed_type": "MULTI_GPU", "num_processes": 8, "num_machines": 1, "gpu_ids": "all"},
    "ddp_2_nodes": {"distributed_type": "MULTI_GPU", "num_processes": 16, "num_machines": 2},
    "fsdp2": {"distributed_type": "FSDP", "num_processes": 8, "num_machines": 1},
    "fsdp2_2_nodes": {"distributed_type": "FSDP", "num_processes": 16, "num_machines": 2},
    "hsdp": {"distributed_type": "FSDP", "num_processes": 16, "num_machines": 2},
}
"""What accelerate reads from the files that need GPUs."""


def start(run: Runner, command: str, output: Path, forked: bool = True) -> Ended:
    """Run a command line, with hidden GPUs; as written, if it is not `forked`."""
    words = [*command.split(), *SMALL.split(), "--no-report", "--output", str(output)]
    return (run.python if forked else run.program)(
        of_python(*words) if forked else words,
        PATH=os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])),
        CUDA_VISIBLE_DEVICES="",
        HF_HOME=str(output.parent / "hf_home"),  # without a config of the wizard
    )


def obtained(run: Runner, command: str, output: Path, names: dict[str, Any], forked: bool = True) -> dict[str, Any]:
    """Return these fields of the run record that a command line leaves."""
    ended = start(run, command, output, forked)
    assert ended.code == 0, ended.err
    (record,) = read_metrics(output, "run")
    return {name: record[name] for name in names}


@pytest.fixture
def busy_port() -> Iterator[None]:
    """Occupy the default port of accelerate and torchrun."""
    with socket.socket() as holder:
        with suppress(OSError):
            holder.bind(("", 29500))
            holder.listen()
        yield


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("accel_train train", ALONE),
        ("accelerate launch --cpu --num_processes 2 -m accel_train train", PAIR),
        slow(
            "accelerate launch --mixed_precision bf16 -m accel_train train", ALONE | ACCELERATE | {"precision": "bf16"}
        ),
        slow("accelerate launch --mixed_precision bf16 -m accel_train train --precision fp32", ALONE | ACCELERATE),
        slow(f"accelerate launch --config_file {CONFIGS}/cpu.yaml -m accel_train train", ALONE | ACCELERATE),
        (f"accelerate launch --config_file {CONFIGS}/cpu_2_processes.yaml -m accel_train train", PAIR | ACCELERATE),
        slow(
            f"accelerate launch --config_file {CONFIGS}/gpu.yaml -m accel_train train --device cpu --precision fp32",
            ALONE | ACCELERATE | {"device_asked": "cpu"},
        ),
        slow(
            f"accelerate launch --config_file {CONFIGS}/ddp.yaml --num_processes 2 -m accel_train train --device cpu",
            PAIR | ACCELERATE | {"device_asked": "cpu", "precision": "bf16"},
        ),
    ],
    ids=[
        *("alone", "accelerate --cpu", "bf16", "bf16, but fp32 by flag", "cpu.yaml", "cpu_2_processes.yaml"),
        *("gpu.yaml on a CPU", "ddp.yaml on CPUs"),
    ],
)
def test_launcher_starts_what_was_asked(run: Runner, command: str, expected: dict[str, Any]) -> None:
    assert obtained(run, command, run.folder / "out", expected) == expected


def test_accelerate_launches_the_script_at_the_root_of_a_clone(tmp_path: Path) -> None:
    expected = ALONE | ACCELERATE
    command = "accelerate launch accel_train train"
    assert obtained(Runner(ROOT), command, tmp_path / "out", expected, forked=False) == expected


@pytest.mark.usefixtures("busy_port")
def test_three_launchers_at_once_give_identical_weights(run: Runner) -> None:
    commands = {
        "accel_train": "accel_train train --processes 2",
        "accelerate launch": "accelerate launch --multi_gpu --num_processes 2 -m accel_train train",
        "torchrun": "torchrun --nproc_per_node 2 -m accel_train train",
    }
    with ThreadPoolExecutor() as pool:
        records = pool.map(
            lambda name: obtained(run, commands[name], run.folder / name, PAIR, forked=name == "accel_train"), commands
        )
        assert list(records) == [PAIR | {"launched_by": name} for name in commands]
    for name in ("accelerate launch", "torchrun"):  # as other tests start them
        assert obtained(run, commands[name], run.folder / f"{name}, forked", PAIR) == PAIR | {"launched_by": name}
    for weights in ("model.safetensors", "best.safetensors"):
        assert len({path.read_bytes() for path in run.folder.glob(f"*/{weights}")}) == 1


COUNTS = """
from accel_train.errors import UserError
from accel_train.distributed.launcher import processes_to_start
for asked in (None, 3, 2):
    try:
        print(processes_to_start(asked))
    except UserError as error:
        print(error.message)
"""
LAUNCHES = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {COUNTS!r}]))"


def test_count_for_accelerate_launch_is_read_from_its_command_line(run: Runner) -> None:
    options = ("accelerate", "launch", "--cpu", "--num_machines", "1", "--num_processes", "3", "train.py")
    set_by_accelerate = {"MASTER_PORT": "29500", "ACCELERATE_DYNAMO_MODE": "default"}
    ended = run.program([sys.executable, "-c", LAUNCHES, *options], **set_by_accelerate)
    assert ended.out.splitlines() == ["3", "3", "--processes 2, but accelerate launch was asked for 3"], ended.err


USE_CPU_FALSE = "the launcher's configuration says use_cpu: false, but torch finds no GPU"


@pytest.mark.parametrize(
    ("name", "options", "error", "hint"),
    [
        ("ddp", "--device cuda", "--device cuda, but torch finds no such device", "use --device cpu, or install its"),
        slow("ddp", "", USE_CPU_FALSE, "set use_cpu: true in it, or add --device cpu"),
        ("gpu", "", USE_CPU_FALSE, "set use_cpu: true in it, or add --device cpu"),
        slow("fsdp2", "", USE_CPU_FALSE, "set use_cpu: true in it, or add --device cpu"),
    ],
    ids=["--device cuda", "ddp.yaml", "gpu.yaml", "fsdp2.yaml"],
)
def test_missing_gpu_is_one_error(run: Runner, name: str, options: str, error: str, hint: str) -> None:
    processes = "" if name == "gpu" else "--num_processes 2"
    command = f"accelerate launch --config_file {CONFIGS}/{name}.yaml {processes} -m accel_train train {options}"
    ended = start(run, command, run.folder / "out")
    assert ended.code != 0
    lines = [line for line in ended.err.splitlines() if line.startswith(("error: ", "hint: "))]
    assert len(lines) == 2
    assert lines[0] == f"error: {error}"
    assert lines[1].startswith(f"hint: {hint}")
    assert not (run.folder / "out").exists()


@pytest.mark.parametrize("name", FOR_GPUS)
def test_configs_for_gpus_are_read_by_accelerate(name: str) -> None:
    stored = load_config_from_file(str(CONFIGS / f"{name}.yaml"))
    expected = {"mixed_precision": "bf16", "use_cpu": False, **FOR_GPUS[name]}
    assert {key: getattr(stored, key) for key in expected} == expected
    if stored.distributed_type == "FSDP":
        assert stored.fsdp_config["fsdp_version"] == 2
    if stored.num_machines == 2:
        assert (stored.machine_rank, stored.main_process_ip, stored.rdzv_backend) == (0, "10.0.0.1", "static")
    if name == "hsdp":
        sizes = stored.parallelism_config
        assert (sizes["parallelism_config_dp_replicate_size"], sizes["parallelism_config_dp_shard_size"]) == (2, 8)


def test_every_accelerate_config_is_tested() -> None:
    on_cpus = {"cpu", "cpu_2_processes", "fsdp2_cpu_2_processes", "hsdp_cpu_4_processes"}
    assert {path.stem for path in CONFIGS.iterdir()} == on_cpus | FOR_GPUS.keys()
