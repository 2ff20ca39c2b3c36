"""Options that differ are named, and the first update at which two runs differ is found."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from helpers.histories import epoch, progress, write_metrics, write_run
from helpers.run_events import started

from accel_train.events import Event
from accel_train.history.comparison import (
    Parting,
    derived_options,
    different_options,
    different_surroundings,
    different_values,
    parting,
    same_number,
)
from accel_train.history.run import RunHistory, read_run


def runs(tmp_path: Path, *events: tuple[Event, ...]) -> list[RunHistory]:
    return [read_run(write_run(tmp_path / str(number), *own)) for number, own in enumerate(events)]


def test_values_that_differ_are_returned_for_each_run() -> None:
    values = [{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": None}, {"a": 1, "b": 2, "d": 0}]
    assert different_values(values) == {"b": (2, 3, 2), "d": (None, None, 0)}


def test_options_that_say_where_a_run_is_do_not_count(tmp_path: Path) -> None:
    one = read_run(write_run(tmp_path / "a", output="a", seed=1, lr=0.5))
    other = read_run(write_run(tmp_path / "b", output="b", seed=2, lr=0.5))
    assert different_options([one, other]) == {"seed": (1, 2)}


def test_options_that_nobody_gave_to_a_run_are_those_that_follow_from_others(tmp_path: Path) -> None:
    one, other = (read_run(write_run(tmp_path / name)) for name in "ab")
    shared = "seed: 0  # default\nmax_lr: 0.05  # default for cnn with sgd\n"
    (one.folder / "config.yaml").write_text(f"{shared}lr: 0.1  # default for cnn with sgd\nmodel: cnn  # a.yaml\n")
    (other.folder / "config.yaml").write_text(f"{shared}lr: 0.1  # flag\nmodel: mlp  # default for digits\n")
    assert derived_options([one, other]) == {"seed", "max_lr"}
    assert derived_options([one, one]) == {"seed", "max_lr", "lr"}
    (other.folder / "config.yaml").unlink()
    assert derived_options([one, other]) == frozenset()


def test_hardware_and_images_are_compared(tmp_path: Path) -> None:
    found = runs(tmp_path, (), ())
    contents: dict[str, Any] = {"classes": ["a"], "splits": {"train": {"images": 4, "fingerprint": "ff"}}}
    identity = {"device": "cpu", "CPU": "another", "threads": "1"}
    write_metrics(found[1].folder, (started(contents=contents, world_size=1, identity=identity),))
    different = different_surroundings([found[0], read_run(found[1].folder)])
    assert different == {
        "processes": (2, 1),
        "CPU": ("AMD EPYC", "another"),
        "train images": (1437, 4),
        "train fingerprint": ("5f2d73fdad091dd6", "ff"),
        "val images": (360, None),
        "val fingerprint": ("d902b69771016404", None),
    }


@pytest.mark.parametrize(
    ("name", "quantity", "value"),
    [
        ("lr", "learning rate", 0.2),
        ("local_ids_hash", "images", "01"),
        ("local_loss", "loss", math.nextafter(1.5, 2)),
        ("gradient_norm", "gradient norm", math.nan),
    ],
)
def test_first_difference_is_found_to_the_last_bit(name: str, quantity: str, value: Any, tmp_path: Path) -> None:
    usual = (progress(5), progress(10), progress(15), progress(20))
    changed = progress(15, **{name: value})
    first, second = runs(tmp_path, usual, (progress(5), progress(10), changed, progress(20, lr=0.3)))
    found = parting(first, second)
    assert (found.unit, found.equal_until, found.differs_at, found.quantity) == ("update", 10, 15, quantity)
    assert found.losses == (1.5, changed.local_loss)
    assert found.values is not None
    assert same_number(found.values[0], asdict(usual[2])[name])
    assert same_number(found.values[1], value)


def test_earliest_cause_is_named_if_several_differ(tmp_path: Path) -> None:
    first, second = runs(tmp_path, (progress(5),), (progress(5, local_ids_hash="1", local_loss=9.0),))
    assert parting(first, second) == Parting("update", None, 5, "images", ("00ff", "1"), (1.5, 9.0))


def test_only_updates_that_both_have_logged_are_compared(tmp_path: Path) -> None:
    first, second = runs(tmp_path, (progress(4), progress(8)), (progress(3, lr=1.0), progress(4), progress(6, lr=1.0)))
    assert parting(first, second) == Parting("update", 4, None, None, None, None)


def test_runs_without_a_common_update_are_not_compared(tmp_path: Path) -> None:
    assert parting(*runs(tmp_path, (progress(4),), ())) == Parting("update", None, None, None, None, None)


def test_other_number_of_processes_leaves_the_epochs_to_compare(tmp_path: Path) -> None:
    first, second = runs(tmp_path, (progress(5), epoch(1), epoch(2)), ())
    events = (started(world_size=1), progress(5, lr=9.0), epoch(1), epoch(2, train_loss=0.25, val_loss=1.0))
    write_metrics(second.folder, events)
    found = parting(first, read_run(second.folder))
    assert found == Parting("epoch", 1, 2, "training loss", (0.3, 0.25), (0.3, 0.25))
