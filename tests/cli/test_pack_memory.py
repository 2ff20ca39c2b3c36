"""A packed data set can be larger than the memory that training may use."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.runner import Runner
from PIL import Image

_MB = 2**20
_LIMIT = 700 * _MB  # torch, a small model and a process of Python take 400 to 500


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Make a control group with this memory limit, version 1 or 2."""
    root = Path("/sys/fs/cgroup")
    own = (root / "memory" if (root / "memory").is_dir() else root) / f"accel_train_test_{os.getpid()}"
    try:
        own.mkdir()
    except OSError:
        pytest.skip("no control group can be made here")
    limits = [own / name for name in ("memory.limit_in_bytes", "memory.max") if (own / name).exists()]
    if not limits:
        own.rmdir()
        pytest.skip("control groups limit no memory here")
    limits[0].write_text(str(_LIMIT))
    yield own
    own.rmdir()


def highest_use(group: Path) -> int:
    names = ("memory.max_usage_in_bytes", "memory.peak")
    return int(next(group / name for name in names if (group / name).exists()).read_text())


def forget(folder: Path) -> int:
    """Drop the files from the page cache, so that their reader is charged for them; return their size."""
    total = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            total += file.seek(0, os.SEEK_END)
    return total


@pytest.mark.slow
def test_packed_set_larger_than_memory_trains(run: Runner, group: Path) -> None:
    for name in "ab":
        (run.folder / "src" / name).mkdir(parents=True)
        Image.effect_noise((256, 256), 40).convert("RGB").save(run.folder / "src" / name / "0.jpg")
        for number in range(1, 2048):
            os.link(run.folder / "src" / name / "0.jpg", run.folder / "src" / name / f"{number}.jpg")
    assert run("pack", "src", "dst").code == 0
    assert forget(run.folder / "dst") > _LIMIT + 64 * _MB
    train = [sys.executable, "-m", "accel_train", "train", "--no-report", "--data", "dst", "--val-fraction", "0.05"]
    options = ["--model", "mlp", "--image-size", "32", "--epochs", "1", "--workers", "0", "--output", "out"]
    inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *train, *options]
    ended = run.program(inside)
    assert ended.code == 0, ended.err
    assert highest_use(group) > _LIMIT - 16 * _MB  # it reached the limit, and pages were reclaimed
