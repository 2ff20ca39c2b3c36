"""The first lines of a run in three speeds, and what a dry run tells."""

import shutil
from pathlib import Path

import pytest
from helpers.cli import Call, in_process, write_pictures
from helpers.runner import Runner

SMALL = ("--model", "cnn", "--image-size", "32", "--epochs", "1", "--device", "cpu")
FEW = ["run", "data", "model", "devices", "", "batch", "learning rate", "schedule", "augmentation"]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a runner in a folder with pictures of two and of three classes, and a run on two."""
    run = Runner(tmp_path_factory.mktemp("banner"))
    write_pictures(run.folder / "two", {"a": 12, "b": 8})
    write_pictures(run.folder / "three", {"a": 8, "b": 8, "c": 8})
    ended = run("train", "--data", "two", *SMALL, "--output", "run")
    assert ended.code == 0, ended.err
    return run


def labels(out: str) -> list[str]:
    """Return the labels of the rows before the first epoch."""
    lines = out[out.index("\nrun  ") + 1 :].splitlines()
    return [
        line[:15].strip() for line in lines[: lines.index(next(x for x in lines if x.startswith("augmentation"))) + 1]
    ]


def test_default_is_short_and_verbose_is_full(run: Runner) -> None:
    few = run("train", *SMALL, "--limit", "64", "--output", "few")
    everything = run("train", *SMALL, "--limit", "64", "--output", "all", "--verbose")
    nothing = run("train", *SMALL, "--limit", "64", "--output", "none", "--quiet")
    assert (few.code, everything.code, nothing.code) == (0, 0, 0)
    assert labels(few.out) == FEW
    assert "options        --limit 64\n" in few.out
    assert {"classes", "environment", "threads", "optimizer", "updates", "dropped"} <= set(labels(everything.out))
    assert "limit          at most 64 training and 64 validation images" in everything.out
    assert nothing.out.startswith("note: only ") or nothing.out.startswith("validation accuracy")
    assert "data  " not in nothing.out


def test_verbose_and_quiet_contradict_each_other(call: Call) -> None:
    ended = call("train", "--verbose", "--quiet")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: --verbose and --quiet contradict each other\nhint: leave one of them out\n"


def test_data_named_by_their_path_are_named_once(trained: Runner) -> None:
    ended = trained("train", "--data", "two", *SMALL, "--dry-run")
    assert "data           two: 17 training and 3 validation images of 3 × 32 × 32, 2 classes\n" in ended.out
    assert "from two" not in ended.out


def test_dry_run_prints_no_text_among_records(trained: Runner) -> None:
    words = ("train", "--data", "two", *SMALL, "--dry-run")
    ended = trained(*words, "--json")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == trained(*words).out


def test_dry_run_tells_which_head_is_replaced(trained: Runner) -> None:
    ended = trained("train", "--data", "three", *SMALL, "--weights", "run", "--dry-run")
    assert ended.code == 0, ended.err
    assert "note: weights from run/model.safetensors: 6 tensors\n" in ended.out
    assert "note: head 9 replaced: 2 → 3 classes\n" in ended.out
    assert "would start a new run in the new folder runs/three_cnn_001\n" in ended.out
    assert not (trained.folder / "runs").exists()


def test_dry_run_tells_what_would_be_resumed_and_writes_nothing(trained: Runner, run: Runner) -> None:
    shutil.copytree(trained.folder, run.folder, dirs_exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    ended = run("train", "--resume", "run", "--epochs", "3", "--dry-run")
    (checkpoint,) = (run.folder / "run/checkpoints").iterdir()
    update = int(checkpoint.name.removeprefix("update_"))
    assert ended.code == 0, ended.err
    assert f"would resume at epoch 2 of 3, update {update}, from run/checkpoints/{checkpoint.name}\n" in ended.out
    recomputed = "note: epochs 1 → 3: the cosine schedule is recomputed over 3 epochs: the learning rate of update"
    assert f"{recomputed} {update + 1} is " in ended.out
    assert {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")} == before


def test_dry_run_refuses_what_a_run_would(trained: Runner, run: Runner) -> None:
    shutil.copytree(trained.folder, run.folder, dirs_exist_ok=True)
    for words, message in (
        (
            ("--data", "two", "--output", "run", "--seed", "1"),
            "run holds a run of another configuration: --seed 1 instead",
        ),
        (
            ("--data", "three", "--output", "run"),
            "the data are not those of the run in run: class c is new, −4 files in train/a",
        ),
        (("--output", "two"), "--output two is not empty: a does not belong to a run"),
        (("--resume", "two"), "--resume two is no run and no checkpoint of one"),
        (("--resume", "run", "--lr", "9"), "run holds a run of another configuration: --lr 9 instead of 0.1"),
    ):
        ended = run("train", *words, *SMALL, "--dry-run")
        assert ended.code == 2
        assert ended.err.startswith(f"error: {message}"), ended.err


def test_dry_run_names_an_empty_and_a_damaged_folder(trained: Runner, run: Runner) -> None:
    shutil.copytree(trained.folder, run.folder, dirs_exist_ok=True)
    (run.folder / "empty").mkdir()
    empty = run("train", "--data", "two", *SMALL, "--output", "empty", "--dry-run")
    assert "would start a new run in the empty folder empty\n" in empty.out
    (checkpoint,) = (run.folder / "run/checkpoints").iterdir()
    (checkpoint / "state.json").unlink()
    damaged = run("train", "--resume", "run", "--dry-run")
    assert f"note: checkpoint {checkpoint.name} is damaged (state.json is missing)" in damaged.out
    assert "would start again: the run in run has no checkpoint\n" in damaged.out
    shutil.rmtree(checkpoint)
    unsaved = run("train", "--data", "two", *SMALL, "--output", "run", "--dry-run")
    assert "would start again: the run in run has no checkpoint\n" in unsaved.out
