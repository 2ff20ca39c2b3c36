"""A rank or launcher that dies or hangs is named and ends the run within seconds, or is restarted."""

import re
import time
from pathlib import Path

import pytest
from helpers.faults import ENDLESS, ON_CPU, finished, started
from helpers.marks import in_turn
from helpers.processes import lives, wait_until
from helpers.runner import LAUNCHERS

from accel_train.checkpoints.store import newest_valid, update_of

ANY_LAUNCHER = [("accel_train", 2), ("accelerate", 1), ("accelerate", 2), ("torchrun", 2)]
"""Launchers that are a process of their own, and the number of ranks."""
ANY_RANK = [(launcher, rank) for rank in (1, 0) for launcher in LAUNCHERS]
"""Launchers, and one of two ranks."""
LEARNING = ("--data", "digits", "--model", "cnn", "--batch-size", "16", "--global-batch-size", "32", *ON_CPU)
SECONDS_TO_MEET = 2.5
"""Time until the watchdog of each rank knows the processes of the others; before, they "did not start"."""
SLOW = """
import os, time
from pathlib import Path
import torch

class Images:
    classes = ("a", "b")

    def __len__(self):
        return 64

    def __getitem__(self, i):
        if os.environ["RANK"] == "1" and Path("sleep").exists():
            time.sleep(40)
        return torch.full((1, 8, 8), i, dtype=torch.uint8), i % 2

def data():
    return Images(), Images()
"""


@pytest.mark.parametrize(("launcher", "rank"), in_turn(ANY_RANK, times=20, quick=1, more=2))
def test_killed_rank_is_named_and_ends_the_run(launcher: str, rank: int, tmp_path: Path) -> None:
    with started(tmp_path, "--output", tmp_path / "run", *ENDLESS, launcher=launcher, processes=2) as program:
        program.wait_for_epoch()
        program.ranks()[rank].kill()
        assert program.wait(15) != 0
    named = rf"rank\s*: {rank} .*Signal 9 \(SIGKILL\)" if launcher != "accel_train" else f"rank {rank} of 2 .* SIGKILL"
    assert re.search(named, program.err, re.DOTALL), program.err


@pytest.mark.parametrize(("launcher", "rank"), in_turn(ANY_RANK, times=6, quick=0, more=1))
def test_stopped_rank_is_named_and_ends_the_run(launcher: str, rank: int, tmp_path: Path) -> None:
    words = ("--output", tmp_path / "run", "--timeout", "10", *ENDLESS)
    with started(tmp_path, *words, launcher=launcher, processes=2) as program:
        program.wait_for_epoch()
        time.sleep(SECONDS_TO_MEET)
        program.ranks()[rank].suspend()
        assert program.wait(25) != 0
    assert f"rank {rank} (process" in program.err


def test_timeout_ends_a_run_whose_rank_sleeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 sleeps for 40 s before a collective; both end long before it would wake."""
    monkeypatch.chdir(tmp_path)
    Path("slow.py").write_text(SLOW, encoding="utf-8")
    words = ("--data", "slow:data", "--model", "mlp", "--batch-size", "8", "--workers", "0", *ON_CPU)
    with started(tmp_path, *words, "--epochs", "100000", "--timeout", "10", processes=2) as program:
        program.wait_for_epoch()
        time.sleep(SECONDS_TO_MEET)
        Path("sleep").touch()
        assert program.wait(25) != 0
    assert "rank 1 (process" in program.err


@pytest.mark.parametrize(("launcher", "processes"), in_turn(ANY_LAUNCHER, times=10, quick=2, more=2))
def test_ranks_whose_launcher_is_killed_save_and_end(launcher: str, processes: int, tmp_path: Path) -> None:
    with started(tmp_path, "--output", tmp_path / "run", *ENDLESS, launcher=launcher, processes=processes) as program:
        program.wait_for_epoch()
        program.process.kill()
        assert program.wait(8) == -9
    assert "stopped by the death of its launcher" in program.out, program.out + program.err
    checkpoint, problems = newest_valid(tmp_path / "run" / "checkpoints")
    assert checkpoint
    assert (update_of(checkpoint), problems) == (program.saved(), [])


@pytest.mark.parametrize(("launcher", "rank"), in_turn([("torchrun", 1), ("accelerate", 0)], times=6, quick=0, more=1))
def test_restarted_ranks_resume(launcher: str, rank: int, tmp_path: Path) -> None:
    words = (*LEARNING, "--epochs", "4", "--save-every", "10updates")
    restarts = ("--max_restarts", "2")
    with started(
        tmp_path, "--output", tmp_path / "run", *words, launcher=launcher, processes=2, options=restarts
    ) as program:
        program.wait_for(lambda: program.saved() > 0)
        saved = program.saved()
        program.ranks()[rank].kill()
        assert program.wait(120) == 0, program.out + program.err
    assert program.resumed() >= saved
    finished(tmp_path, "--output", tmp_path / "unbroken", *words, "--processes", "2")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "unbroken")]
    assert weights[0] == weights[1]


def test_second_run_in_the_same_folder_is_rejected(tmp_path: Path) -> None:
    words = ("--output", tmp_path / "run", *ENDLESS)
    with started(tmp_path, *words) as first:
        first.wait_for_epoch()
        second = finished(tmp_path, *words, code=2)
        assert "another run" in second.err
        wait_until(lambda: first.out.count("\nepoch ") > 1, 10)
        assert all(map(lives, first.tree()))
