"""Runs side by side: what each cost, and the first against each other one."""

from pathlib import Path

import pytest
from helpers.histories import ended, epoch, progress, write_run

from accel_train.history.compared import Compared, compare_runs
from accel_train.history.run import read_run
from accel_train.history.summary import summarize


def compared(tmp_path: Path, prices: list[float] | None) -> Compared:
    """Compare two finished runs of half an hour and one that has not trained."""
    folders = [
        write_run(tmp_path / "a", progress(5), epoch(1), ended(22, seconds=1800.0)),
        write_run(tmp_path / "b", progress(5, local_loss=2.0), epoch(1), ended(22, seconds=1800.0), seed=1),
        write_run(tmp_path / "c", weights=False),
    ]
    runs = [read_run(folder) for folder in folders]
    return compare_runs(dict(zip("ABC", runs, strict=True)), [summarize(run, running=False) for run in runs], prices)


@pytest.mark.parametrize(
    ("prices", "costs"), [([2.0, 3.0, 4.0], [1.0, 1.5, None]), ([0.0] * 3, [0.0, 0.0, None]), (None, [None] * 3)]
)
def test_cost_is_that_of_the_time_of_a_run(
    prices: list[float] | None, costs: list[float | None], tmp_path: Path
) -> None:
    assert compared(tmp_path, prices).costs == costs


def test_first_run_is_compared_with_each_other_one(tmp_path: Path) -> None:
    found = compared(tmp_path, None)
    assert list(found.runs) == ["A", "B", "C"]
    assert found.options == {"seed": (0, 1, 0)}
    assert {letter: parting.differs_at for letter, parting in found.partings.items()} == {"B": 5, "C": None}
    missing = f"{tmp_path}/a has no predictions.csv; to write it: "
    assert all(paired.notes[0].startswith(missing) for paired in found.tests.values())


def test_record_holds_the_runs_and_what_each_has_over_the_first(tmp_path: Path) -> None:
    record = compared(tmp_path, [2.0, 3.0, 4.0]).as_record()
    assert [(run["state"], run["cost"]) for run in record["runs"]] == [
        ("finished", 1.0),
        ("finished", 1.5),
        ("unfinished", None),
    ]
    assert [one["run_folder"] for one in record["against_first"]] == [f"{tmp_path}/b", f"{tmp_path}/c"]
    assert [one["paired_test"] for one in record["against_first"]] == [None, None]
