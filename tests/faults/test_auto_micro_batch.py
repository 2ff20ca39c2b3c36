"""--auto-micro-batch finds the largest batch that fits on every process, keeps the global batch, and searches once."""

from pathlib import Path

import pytest
import yaml
from helpers.faults import ON_CPU, finished

GREEDY = """
import os, resource
from pathlib import Path
import psutil, torch
from torch import nn

class Greedy(nn.Sequential):
    '''Takes 64 MiB for each image, and does nothing with them.'''

    def forward(self, images):
        taken = torch.empty(len(images), 2**26, dtype=torch.uint8)
        return super().forward(images)

def net(classes):
    room = int(Path("room_" + os.environ.get("RANK", "0")).read_text())
    limit = psutil.Process().memory_info().vms + room * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
    return Greedy(nn.Flatten(), nn.Linear(64, classes), nn.Dropout(0.1))
"""
WORDS = (
    *("--data", "synthetic:64,1,8,8,2", "--model", "greedy:net"),
    *("--global-batch-size", "32", "--batch-size", "2", *ON_CPU),
)


def give_room(*mebibytes: int) -> None:
    """Set how much memory each rank may allocate after importing torch."""
    for rank, room in enumerate(mebibytes):
        Path(f"room_{rank}").write_text(str(room))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("greedy.py").write_text(GREEDY)


@pytest.mark.parametrize(
    ("rooms", "found", "batch"),
    [
        ((1500,), 16, "16 per process × 1 process × 2 accumulations = 32 per update"),
        ((3000, 1000), 8, "8 per process × 2 processes × 2 accumulations = 32 per update"),
    ],
    ids=["one process", "two processes, the second with less memory"],
)
def test_batch_that_fits_everywhere_is_found_once(
    rooms: tuple[int, ...], found: int, batch: str, tmp_path: Path
) -> None:
    give_room(*rooms)
    words = ("--output", "run", *WORDS, "--auto-micro-batch", "--processes", str(len(rooms)))
    program = finished(tmp_path, *words, "--epochs", "1")
    assert f"\nbatch          {batch}\n" in program.out
    note = (
        f"note: --auto-micro-batch: batches of {found} fit; with BatchNorm or dropout their size changes the results\n"
    )
    assert note in program.out
    config = Path("run/config.yaml").read_text()
    assert f"\nbatch_size: {found}  # --auto-micro-batch\n" in config
    assert yaml.safe_load(config)["global_batch_size"] == 32

    give_room(*[9000] * len(rooms))
    again = finished(tmp_path, *words, "--epochs", "2")
    assert again.resumed() == 2
    assert f"\nbatch          {batch}\n" in again.out
    assert "batches of" not in again.out
