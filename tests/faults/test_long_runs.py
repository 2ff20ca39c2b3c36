"""The same command resumes its run, whatever happened to it, and rejects a run of another configuration."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.faults import ENDLESS, TINY, Program, assert_same_run, finished, started
from helpers.runner import read_metrics

WORDS = (*TINY, "--epochs", "3")


def killed_after(saved: int, folder: Path, *words: str | Path) -> Program:
    """Return a run that was killed when it had saved N updates."""
    with started(folder, *words) as program:
        program.wait_for(lambda: program.saved() >= saved)
    return program


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("baseline")
    finished(folder, "--output", folder / "run", *WORDS)
    return folder / "run"


def make_empty(output: Path) -> None:
    output.mkdir()


def die_before_saving(output: Path) -> None:
    with started(output.parent, "--output", output, *WORDS, "--save-every", "1000updates") as program:
        program.wait_for(lambda: "\nupdate " in program.out)
    assert program.saved() == 0


@pytest.mark.parametrize("prepare", [make_empty, die_before_saving])
def test_run_starts_in_a_folder_without_a_checkpoint(
    prepare: Callable[[Path], None], baseline: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    prepare(output)
    program = finished(tmp_path, "--output", output, *WORDS)
    assert "resumed" not in program.out
    assert_same_run(output, baseline)


def test_finished_run_has_nothing_to_do(baseline: Path, tmp_path: Path) -> None:
    output = shutil.copytree(baseline, tmp_path / "run")
    program = finished(tmp_path, "--output", output, *WORDS)
    assert program.resumed() == 24
    assert "\nepoch " not in program.out
    assert_same_run(output, baseline)


def test_another_configuration_is_rejected_with_the_differences(baseline: Path, tmp_path: Path) -> None:
    before = (baseline / "metrics.jsonl").read_bytes()
    program = finished(tmp_path, "--output", baseline, *WORDS, "--lr", "0.5", "--seed", "3", code=2)
    error, hint = program.err.splitlines()
    assert error.startswith(f"error: {baseline} holds a run of another configuration: ")
    assert all(f"{now} instead of {was}" in error for now, was in (("--lr 0.5", "0.2"), ("--seed 3", "0")))
    assert "--output" in hint
    assert (baseline / "metrics.jsonl").read_bytes() == before


def test_run_resumes_with_another_placement(tmp_path: Path) -> None:
    output = tmp_path / "run"
    placed = (("--workers", "1"), ("--accumulate", "1"), ("--log-every", "7", "--keep", "1", "--timeout", "99"))
    saved = 0
    for words in ((), *placed):
        program = killed_after(1, tmp_path, "--output", output, *ENDLESS, "--save-every", "5updates", *words)
        assert program.resumed() >= saved
        saved = program.saved()


def test_number_of_processes_that_cannot_share_an_update_is_rejected(tmp_path: Path) -> None:
    words = ("--output", tmp_path / "run", *ENDLESS, "--batch-size", "2", "--global-batch-size", "6")
    killed_after(5, tmp_path, *words, "--save-every", "5updates")
    program = finished(tmp_path, *words, "--processes", "4", code=2)
    error, hint = program.err.splitlines()
    assert error == "error: 4 processes cannot share 3 micro-batches of 2 (--global-batch-size 6)"
    assert hint == "hint: a resumed run keeps its batches; give --processes 3 or fewer"


def test_time_limit_stops_a_run_that_resumes(tmp_path: Path) -> None:
    saved = 0
    for _ in range(2):
        with started(tmp_path, "--output", tmp_path / "run", *ENDLESS, "--time-limit", "3s") as program:
            assert program.wait(10) == 0, program.err  # a busy machine takes longer than the tenth left for saving
        assert program.resumed() == saved
        assert program.saved() > saved
        saved = program.saved()
        assert f"stopped by the time limit after update {saved:,} (saved)" in program.out


@pytest.mark.parametrize("stop", ["killed", "ended"])
def test_resumed_run_follows_the_same_schedule(stop: str, tmp_path: Path) -> None:
    words = (*TINY, "--warmup-epochs", "1.5", "--schedule", "constant", "--log-every", "1", "--save-every", "3updates")
    unbroken, output = tmp_path / "unbroken", tmp_path / "run"
    finished(tmp_path, "--output", unbroken, *words, "--epochs", "6")
    if stop == "killed":
        killed_after(9, tmp_path, "--output", output, *words, "--epochs", "6")
    else:
        finished(tmp_path, "--output", output, *words, "--epochs", "3")
    assert finished(tmp_path, "--output", output, *words, "--epochs", "6").resumed() >= 9
    rates = [[record["lr"] for record in read_metrics(folder, "progress")] for folder in (output, unbroken)]
    assert len(set(rates[0])) == 13
    assert len(rates[0]) == 48
    assert rates[0] == rates[1]
