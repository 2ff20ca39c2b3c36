"""Images in memory are stored once per machine or once per process, as asked."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.runner import Runner

pytestmark = pytest.mark.xdist_group("shared images")  # the tests share runs

IMAGES_BYTES = 24_000 * 3 * 32 * 32
"""Of 20,000 training and 4,000 validation images."""
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


Found = tuple[list[set[str]], list[int]]
"""The shared memory files that each process maps, and its private bytes."""


def look(run: Runner, *words: str) -> Found:
    """Train on two processes and return what they find."""
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


@pytest.fixture(scope="module")
def not_shared(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return look(Runner(tmp_path_factory.mktemp("not_shared")), "--cache", "off")


@pytest.mark.parametrize("words", [(), ("--cache", "ram"), ("--cache", "ram", "--workers", "1")])
def test_cache_in_ram_is_shared_by_processes(run: Runner, not_shared: Found, words: tuple[str, ...]) -> None:
    (first, second), private = look(run, *words)
    assert len(first) == 4  # training and validation images and labels
    assert first == second
    assert min(not_shared[1]) - max(private) > 0.9 * IMAGES_BYTES


def test_each_process_has_its_own_images_if_asked(run: Runner, not_shared: Found) -> None:
    assert not_shared[0] == [set(), set()]
    assert look(run, "--cache", "device")[0] == [set(), set()]


def can_mount() -> bool:
    tried = shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"], check=False)
    return bool(tried) and not tried.returncode


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="mounting is not permitted")
def test_loader_workers_need_no_space_in_dev_shm(run: Runner) -> None:
    """A container gives /dev/shm 64 MB; here a single batch is larger than it."""
    words = ["train", "--data", "synthetic:320,3,128,128,4", "--model", "mlp", "--batch-size", "32", "--workers", "2"]
    words += ["--epochs", "2", "--device", "cpu", "--output", "run"]
    ended = run.after("mount -t tmpfs -o size=1m tmpfs /dev/shm", *words)
    assert ended.code == 0, ended.err
    assert "epoch 2/2" in ended.out
