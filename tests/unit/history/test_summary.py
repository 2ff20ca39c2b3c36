"""A run in one row of numbers, whatever is missing of it."""

from dataclasses import asdict
from pathlib import Path

from helpers.histories import ended, epoch, progress, write_run
from helpers.run_events import STARTED

from accel_train.history.run import read_run
from accel_train.history.summary import Summary, summaries, summarize


def of(folder: Path, *, running: bool = False) -> Summary:
    return summarize(read_run(folder), running=running)


def test_numbers_of_a_finished_run(tmp_path: Path) -> None:
    events = (progress(5), epoch(1, val_accuracy=0.75), epoch(2, best=False, train_loss=0.1, val_loss=1.25), ended())
    folder = write_run(tmp_path / "a", *events)
    found = asdict(of(folder))
    assert found.pop("began").startswith("20")
    assert found == {
        **{"run_folder": str(folder), "state": "finished", "problems": (), "gpu_memory_bytes": None},
        **{"data": "digits", "model": "cnn", "parameters": 93_322, "seed": STARTED.plan.seed, "processes": 2},
        **{"device": "cpu", "precision": "fp32", "global_batch": 64, "epochs": 2, "planned_epochs": 2, "updates": 44},
        **{"train_loss": 0.1, "val_loss": 1.25, "best_epoch": 1, "best_val_accuracy": 0.75, "val_accuracy": 0.5},
        **{"images_per_second": 9.0, "seconds": 3.0},
    }


def test_averaged_weights_count_if_there_are_any(tmp_path: Path) -> None:
    found = of(write_run(tmp_path / "a", epoch(1, ema_val_accuracy=0.875, ema_val_loss=0.5)))
    assert (found.best_val_accuracy, found.val_accuracy) == (0.875, 0.875)


def test_unfinished_run_has_the_numbers_of_its_last_epoch(tmp_path: Path) -> None:
    found = of(write_run(tmp_path / "a", epoch(1), progress(25), weights=False))
    assert (found.state, found.epochs, found.planned_epochs, found.updates) == ("unfinished", 1, 2, 25)
    assert (found.images_per_second, found.seconds) == (7.0, 2.0)


def test_run_before_its_first_epoch_has_no_results(tmp_path: Path) -> None:
    found = of(write_run(tmp_path / "a", weights=False))
    assert (found.state, found.epochs, found.updates) == ("unfinished", 0, 0)
    assert {found.best_epoch, found.best_val_accuracy, found.val_loss, found.images_per_second, found.seconds} == {None}


def test_extended_run_has_planned_what_it_has_done(tmp_path: Path) -> None:
    found = of(write_run(tmp_path / "a", epoch(1), epoch(2), epoch(3), ended(66)))
    assert (found.epochs, found.planned_epochs) == (3, 3)


def test_what_is_missing_makes_a_run_damaged(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", epoch(1), ended(22), weights=False)
    (folder / "config.json").unlink()
    found = of(folder)
    assert found.state == "damaged"
    assert found.problems == ("config.json is missing", "model.safetensors is missing")
    assert found.best_val_accuracy == 0.5


def test_run_that_is_being_written_is_not_damaged(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", weights=False)
    (folder / "metrics.jsonl").unlink()
    assert (of(folder, running=True).state, of(folder, running=True).problems) == ("running", ())
    assert of(folder).problems == ("metrics.jsonl cannot be read: No such file or directory",)


def test_values_of_other_types_are_not_shown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    path = folder / "metrics.jsonl"
    path.write_text(
        path.read_text().replace('"parameters": 93322', '"parameters": "many"').replace('"epochs": 2', '"epochs": {}')
    )
    found = of(folder)
    assert (found.parameters, found.planned_epochs, found.model) == (None, None, "cnn")


def test_runs_of_a_folder_are_found_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_run(tmp_path / name)
    (tmp_path / "no_run").mkdir()
    (tmp_path / "file").touch()
    found = summaries(tmp_path, frozenset({tmp_path / "b"}))
    assert [(run.run_folder, run.state) for run in found] == [
        (str(tmp_path / "a"), "unfinished"),
        (str(tmp_path / "b"), "running"),
    ]
