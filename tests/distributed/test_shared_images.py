"""Images held in memory lie there once for all processes of a machine, or in each of them, as asked."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.runner import Runner

IMAGES_BYTES = 24_000 * 3 * 32 * 32
"""Of the 20,000 training images, and a fifth as many to validate."""
DATA = "synthetic:20000,3,32,32,10"
LOOKING_MODEL = """
import os
from pathlib import Path
from torch import nn

class Looking(nn.Sequential):
    def forward(self, images):
        for name in ("maps", "status"):
            Path(f"{name}{os.environ['RANK']}").write_text(Path(f"/proc/self/{name}").read_text())
        return super().forward(images)

def build(classes):
    return Looking(nn.Flatten(), nn.Linear(3 * 32 * 32, classes))
"""


def look(run: Runner, *words: str) -> tuple[list[set[str]], list[int]]:
    """Train on two processes; return for each the anonymous files that it maps, and the bytes that are its alone."""
    (run.folder / "looking.py").write_text(LOOKING_MODEL)
    ended = run(
        *("train", "--data", DATA, "--limit", "64", "--model", "looking:build", "--batch-size", "16"),
        *("--epochs", "1", "--device", "cpu", *words),
        processes=2,
        PYTHONPATH=str(run.folder),
    )
    assert ended.code == 0, ended.err
    files = [
        set(re.findall(r"(\d+) +/memfd:accel_train", (run.folder / f"maps{rank}").read_text())) for rank in range(2)
    ]
    return files, [_kilobytes(run.folder / f"status{rank}", "RssAnon") * 1024 for rank in range(2)]


def _kilobytes(status: Path, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", status.read_text(), re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize("words", [(), ("--cache", "ram"), ("--cache", "ram", "--workers", "1")])
def test_processes_of_a_machine_share_what_lies_in_ram(run: Runner, words: tuple[str, ...]) -> None:
    (first, second), shared = look(run, *words)
    assert len(first) == 4  # images and labels, to train and to validate
    assert first == second
    (_, _), alone = look(run, "--cache", "off")
    assert min(alone) - max(shared) > 0.9 * IMAGES_BYTES


def test_each_process_has_its_own_where_that_is_asked_for(run: Runner) -> None:
    for place in ("off", "device"):
        assert look(run, "--cache", place)[0] == [set(), set()]


def can_mount() -> bool:
    tried = shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"], check=False)
    return bool(tried) and not tried.returncode


@pytest.mark.skipif(not can_mount(), reason="not everybody may mount")
def test_loader_workers_need_no_room_in_dev_shm(run: Runner) -> None:
    """In a container it has 64 MB; here a batch alone is larger than it."""
    small = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    words = ["train", "--data", "synthetic:320,3,128,128,4", "--model", "mlp", "--batch-size", "32", "--workers", "2"]
    words += ["--epochs", "2", "--device", "cpu", "--output", "run"]
    ended = run.program(["unshare", "--mount", "sh", "-c", small, "sh", sys.executable, "-m", "accel_train", *words])
    assert ended.code == 0, ended.err
    assert "epoch 2/2" in ended.out
