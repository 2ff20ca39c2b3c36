"""A non-finite loss stops all processes within one log interval or rolls back; no non-finite value is saved."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
from helpers.faults import ON_CPU, TINY, Program, assert_same_run, finished, started
from helpers.fragile import FRAGILE
from helpers.runner import read_metrics

from accel_train.checkpoints.store import update_of
from accel_train.data.sampler import ImageOrder

IMAGES, PER_RANK = 64, 4
WORDS = ("--data", "fragile:data", "--model", "fragile:net", "--workers", "0", "--lr", "0.01", *ON_CPU)
BATCHES = {
    1: ("--batch-size", "4", "--accumulate", "2"),
    2: ("--batch-size", "4", "--accumulate", "1", "--processes", "2"),
}
"""Options by number of processes: 8 updates an epoch, of the same images."""

Poison = Callable[[int], None]


@pytest.fixture
def poison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Poison:
    """Return a function that makes the loss of an update NaN, by an image of its second half, which rank 1 has."""
    monkeypatch.chdir(tmp_path)

    def write(update: int) -> None:
        image = ImageOrder(0, IMAGES).sample_indices(0)[(update - 1) * 2 * PER_RANK + PER_RANK]
        Path("fragile.py").write_text(f"POISON = {image}\n{FRAGILE}")

    return write


def the_error(program: Program) -> str:
    errors = [line for line in program.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, program.err
    assert "Traceback" not in program.err
    return errors[0]


def newest(output: Path) -> Path:
    return max((output / "checkpoints").glob("update_*"), key=update_of)


def assert_finite(output: Path) -> None:
    for file in output.rglob("*.safetensors"):
        for name, tensor in safetensors.torch.load_file(file).items():
            assert tensor.isfinite().all(), (file, name)


def test_nan_on_one_rank_stops_both_within_a_log_interval(poison: Poison, tmp_path: Path) -> None:
    poison(5)
    words = (*WORDS, *BATCHES[2], "--log-every", "3", "--save-every", "2updates", "--schedule", "constant")
    program = finished(tmp_path, "--output", tmp_path / "run", *words, "--warmup-epochs", "0", code=1)
    assert the_error(program) == (
        "error: the loss of update 5 on rank 1 is not finite (learning rate 0.01): "
        "found after update 6, gradient norm nan"
    )
    assert program.err.endswith(
        "hint: try --lr 0.002 or --clip-norm 1 (learning rate so far at most 0.01); "
        "--on-nan rollback skips the data since the last checkpoint\n"
    )
    assert newest(tmp_path / "run").name == "update_000004"
    assert_finite(tmp_path / "run")


@pytest.mark.parametrize(
    ("processes", "log_every", "save_every"),
    [
        (1, 3, "1updates"),
        (1, 100, "1epoch"),
        (2, 3, "2updates"),
        pytest.param(2, 100, "1epoch", marks=pytest.mark.chaos),
    ],
)
def test_no_non_finite_weights_are_saved(processes: int, log_every: int, save_every: str, tmp_path: Path) -> None:
    words = (*TINY, "--processes", str(processes), "--epochs", "3", "--save-every", save_every, "--lr", "1e30")
    program = finished(tmp_path, "--output", tmp_path / "run", *words, "--log-every", str(log_every), code=1)
    assert re.search(
        r" of update 2 is not finite \(learning rate \S+e\+2\d\): found after update [2348], ", the_error(program)
    )
    assert_finite(tmp_path / "run")


def test_rollback_without_a_checkpoint_is_an_error(poison: Poison, tmp_path: Path) -> None:
    poison(2)
    program = finished(tmp_path, "--output", tmp_path / "run", *WORDS, *BATCHES[1], "--on-nan", "rollback", code=1)
    assert the_error(program).endswith("; nothing has been saved yet")


@pytest.mark.parametrize("processes", [1, 2])
def test_rollback_skips_the_updates_since_the_checkpoint(processes: int, poison: Poison, tmp_path: Path) -> None:
    poison(5)  # and one update of each later epoch, because the image returns
    words = (*WORDS, *BATCHES[processes], "--epochs", "12", "--save-every", "3updates", "--log-every", "2")
    unkilled, killed = tmp_path / "unkilled", tmp_path / "killed"
    program = finished(tmp_path, "--output", unkilled, *words, "--on-nan", "rollback")
    notes = [line for line in program.out.splitlines() if line.startswith("note:") and "rolled back" in line]
    where = "the loss of update 5" + " on rank 1" * (processes == 2)
    assert notes[0].startswith(f"note: {where} is not finite (learning rate ")
    assert notes[0].endswith(": rolled back to update_000003, skipping the updates 4 to 6")
    assert len(notes) == 12
    assert_finite(unkilled)
    with started(tmp_path, "--output", killed, *words, "--on-nan", "rollback") as program:
        program.wait_for(lambda: program.saved() >= 30)
    resumed = finished(tmp_path, "--output", killed, *words, "--on-nan", "rollback")
    assert resumed.resumed() >= 30
    assert_same_run(killed, unkilled)
    states = [json.loads((newest(output) / "state.json").read_text()) for output in (killed, unkilled)]
    assert len(states[0]["position"]["skipped"]) == 12
    assert states[0]["position"]["skipped"] == states[1]["position"]["skipped"]


def test_epoch_that_ends_with_nan_is_never_the_best(poison: Poison, tmp_path: Path) -> None:
    poison(7)
    words = (*WORDS, *BATCHES[1], "--epochs", "2", "--save-every", "3updates", "--log-every", "100")
    program = finished(tmp_path, "--output", tmp_path / "run", *words, "--on-nan", "rollback")
    assert "rolled back to update_000006" in program.out
    assert_finite(tmp_path / "run")


def test_skipped_epoch_has_no_training_loss(poison: Poison, tmp_path: Path) -> None:
    poison(3)
    folder = tmp_path / "run"
    start = ("--output", folder, *WORDS, *BATCHES[1], "--log-every", "100", "--on-nan", "rollback")
    Path("fragile.py").write_text(Path("fragile.py").read_text().replace("POISON =", "POISON = -1 if True else"))
    finished(tmp_path, *start, "--epochs", "1")
    poison(3)  # an image that the second epoch has somewhere
    program = finished(tmp_path, *start, "--epochs", "2")
    assert "rolled back to update_000008, skipping the updates 9 to 16" in program.out
    assert [record["train_loss"] is None for record in read_metrics(folder, "epoch")] == [False, True]
    assert "train loss -" in program.out
