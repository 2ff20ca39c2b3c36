"""The commands of docs/clusters.md, each with one process on each of two hosts, do what the page says."""

import os
import re
import shutil
import sysconfig
from pathlib import Path

import pytest
from helpers.faults import ON_CPU, TINY, Program
from helpers.hosts import Cluster, cluster
from helpers.runner import Runner, read_metrics

ROOT = Path(__file__).parents[2]
EXACT = (*TINY, "--epochs", "2", "--global-batch-size", "32", "--exact", "--precision", "fp32")
SLOWED = """
import time
from pathlib import Path
import torch

class Images:
    classes = ("a", "b")

    def __len__(self):
        return 64

    def __getitem__(self, i):
        if Path("slow").exists():
            time.sleep(0.01)
        return torch.full((1, 8, 8), i, dtype=torch.uint8), i % 2

def data():
    return Images(), Images()
"""
SLOWED_RUN = (
    *("--data", "slowed:data", "--model", "mlp", "--batch-size", "8", "--global-batch-size", "32", "--workers", "0"),
    *("--epochs", "40", "--exact", "--save-every", "1s", "--timeout", "6", *ON_CPU),
)


def blocks() -> list[list[str]]:
    """Return the commands of each block of the page, by host."""
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL):
        parts = dict(re.findall(r"# on (each host|host0|host1)\n(.*?)(?=# on|\Z)", block, re.DOTALL))
        found.append([parts.get(f"host{number}", parts.get("each host", "")) for number in range(2)])
    return found


*LAUNCHED, ELASTIC = blocks()


def start(two: Cluster, number: int, command: str, *options: str) -> Program:
    """Start a command of the page with one process per host and more options."""
    command = command.replace("--nproc_per_node 8", "--nproc_per_node 1")
    command = command.replace("nodes.yaml", "nodes.yaml --num_processes 2")
    command = re.sub(r"accel_train train(.*)", rf"accel_train train\1 {' '.join(options)}", command)
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    return two.start(number, ["sh", "-ec", command], PATH=path, CUDA_VISIBLE_DEVICES="")


@pytest.mark.slow
@pytest.mark.parametrize("commands", LAUNCHED, ids=["accelerate", "torchrun by name", "torchrun by address"])
def test_two_hosts_train_the_bits_of_one(run: Runner, commands: list[str]) -> None:
    assert run("train", *EXACT, "--output", "one").code == 0
    shutil.copytree(ROOT / "accelerate_configs", run.folder / "accelerate_configs")
    with cluster(run.folder) as two:
        started = [start(two, number, command, *EXACT, "--output", "two") for number, command in enumerate(commands)]
        assert [one.wait() for one in started] == [0, 0], started[0].err
    weights = [(run.folder / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]
    (record,) = read_metrics(run.folder / "two", "run")
    assert [(host["host"], host["network"]) for host in record["hosts"]] == [("host0", "eth0"), ("host1", "eth0")]


def world_sizes(out: str) -> list[int]:
    """Return the number of processes of each attempt."""
    return [int(number) for number in re.findall(r"^devices +(\d+)", out, re.MULTILINE)]


@pytest.mark.chaos
def test_run_shrinks_and_grows_with_its_hosts(run: Runner) -> None:
    (run.folder / "slowed.py").write_text(SLOWED, encoding="utf-8")
    assert run("train", *SLOWED_RUN, "--output", "undisturbed").code == 0
    (run.folder / "slow").touch()
    commands = [
        command.replace("-m accel_train", "--rdzv_conf last_call_timeout=2 -m accel_train") for command in ELASTIC
    ]
    with cluster(run.folder) as two:
        first, _ = (start(two, number, command, *SLOWED_RUN) for number, command in enumerate(commands))
        first.wait_for(lambda: world_sizes(first.out) == [2] and first.saved() > 0)
        two.lose_power(1)
        saved = first.saved()
        first.wait_for(lambda: world_sizes(first.out) == [2, 1] and first.saved() > saved)
        assert first.resumed() >= saved
        two.start_again(1)
        second = start(two, 1, commands[1], *SLOWED_RUN)
        first.wait_for(lambda: world_sizes(first.out) == [2, 1, 2])
        (run.folder / "slow").unlink()
        assert first.wait(60) == 0, first.out + first.err
        assert second.wait(60) == 0, second.out + second.err
    weights = [(run.folder / name / "model.safetensors").read_bytes() for name in ("runs/elastic", "undisturbed")]
    assert weights[0] == weights[1]
