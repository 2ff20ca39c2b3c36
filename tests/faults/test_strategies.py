"""A run whose model is sharded or cut ends as others do: signals, killed and hung ranks, and a full disk."""

import re
import subprocess
import time
from pathlib import Path

import pytest
from helpers.faults import ENDLESS, started
from helpers.marks import chaos, slow
from helpers.runner import Runner

from accel_train.checkpoints.store import newest_valid, update_of

STRATEGIES: dict[str, tuple[int, tuple[str, ...]]] = {
    "HSDP": (4, ("--strategy", "hsdp", "--shard-size", "2")),
    "Pipeline": (4, ("--strategy", "pipeline", "--pipeline-stages", "2", "--accumulate", "2")),
}
"""Processes and options by the name of the strategy."""
SECONDS_TO_MEET = 2.5
"""Time until the watchdog of each rank knows the processes of the others."""


@pytest.fixture(autouse=True)
def hidden_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize("name", [slow(name) for name in STRATEGIES])
def test_signal_saves_and_ends_a_run_that_one_process_resumes(name: str, tmp_path: Path) -> None:
    processes, strategy = STRATEGIES[name]
    words = ("--output", tmp_path / "run", *ENDLESS)
    with started(tmp_path, *words, *strategy, processes=processes) as program:
        program.wait_for_epoch()
        program.process.terminate()
        assert program.wait(10) == 128 + 15, program.out + program.err
    checkpoint, problems = newest_valid(tmp_path / "run" / "checkpoints")
    assert checkpoint
    assert (update_of(checkpoint), problems) == (program.saved(), [])
    with started(tmp_path, *words, "--global-batch-size", str(8 * processes), "--batch-size", "8") as program:
        program.wait_for(lambda: program.resumed() == update_of(checkpoint))


@pytest.mark.parametrize(
    ("name", "rank"), [*(slow(name, 1) for name in STRATEGIES), *(chaos(n, 0) for n in STRATEGIES)]
)
def test_killed_rank_is_named_and_ends_the_run(name: str, rank: int, tmp_path: Path) -> None:
    processes, strategy = STRATEGIES[name]
    with started(tmp_path, "--output", tmp_path / "run", *ENDLESS, *strategy, processes=processes) as program:
        program.wait_for_epoch()
        program.ranks()[rank].kill()
        assert program.wait(15) != 0
    assert re.search(f"rank {rank} of {processes} .* SIGKILL", program.err), program.err


@pytest.mark.parametrize(
    ("name", "rank"), [*(slow(name, 1) for name in STRATEGIES), *(chaos(n, 0) for n in STRATEGIES)]
)
def test_hung_rank_is_named_and_ends_the_run(name: str, rank: int, tmp_path: Path) -> None:
    processes, strategy = STRATEGIES[name]
    words = ("--output", tmp_path / "run", "--timeout", "10", *ENDLESS, *strategy)
    with started(tmp_path, *words, processes=processes) as program:
        program.wait_for_epoch()
        time.sleep(SECONDS_TO_MEET)
        program.ranks()[rank].suspend()
        assert program.wait(25) != 0
    assert f"rank {rank} (process" in program.err


@pytest.mark.parametrize("name", [slow(name) for name in STRATEGIES])
def test_full_disk_is_one_error_and_the_run_resumes_with_space(name: str, run: Runner, small_disk: Path) -> None:
    processes, strategy = STRATEGIES[name]
    words = ("train", "--data", "synthetic:64,1,8,8,2", "--model", "mlp", "--batch-size", "2", "--epochs", "6")
    words = (*words, "--global-batch-size", "8", "--output", str(small_disk / "run"), "--device", "cpu", *strategy)
    full = run(*words, processes=processes)
    assert full.code == 2, full.err
    (error,) = [line for line in full.err.splitlines() if line.startswith("error:")]
    assert error.startswith(f"error: cannot save in {small_disk / 'run'}: ")
    assert "No space left on device" in error
    assert "saved checkpoint update 8" in full.out
    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    resumed = run(*words, processes=processes)
    assert resumed.code == 0, resumed.err
    assert re.search(r"^resumed at epoch \d of \d, update 8$", resumed.out, re.MULTILINE)
