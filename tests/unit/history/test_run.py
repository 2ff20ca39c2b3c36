"""A run is read as far as it has come."""

from pathlib import Path

import pytest
from helpers.histories import ended, epoch, progress, write_run
from helpers.run_events import STARTED

from accel_train.errors import UserError
from accel_train.history.run import read_run


def test_finished_run(tmp_path: Path) -> None:
    best = epoch(1, val_accuracy=0.75)
    run = read_run(write_run(tmp_path / "a", progress(5), best, epoch(2, best=False), ended(), seed=3))
    assert (run.finished, run.end, run.best) == (True, ended(), best)
    assert run.config["seed"] == 3
    assert run.started["model"] == STARTED.model.model
    assert run.problems == []


def test_run_without_its_last_weights_has_not_finished(tmp_path: Path) -> None:
    assert not read_run(write_run(tmp_path / "a", epoch(1), ended(22), weights=False)).finished


def test_continued_run_has_not_finished(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", epoch(1), ended(22), progress(25)))
    assert (run.has_weights, run.finished, run.end) == (True, False, None)


@pytest.mark.parametrize("what", ["does not exist", "is not a folder", "holds no run"])
def test_what_is_no_run_is_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if what == "is not a folder":
        path.touch()
    elif what == "holds no run":
        path.mkdir()
    with pytest.raises(UserError) as caught:
        read_run(path)
    assert caught.value.message == f"{path} {what}"
    assert caught.value.hint == "give the folder of a run: accel_train runs lists those under runs/"
