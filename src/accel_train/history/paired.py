"""Tests whether one run is more accurate than another, on the images that both have been validated on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accel_train.errors import UserError
from accel_train.history.files import PREDICTIONS
from accel_train.history.run import RunHistory
from accel_train.loggers.text import quantity, quoted
from accel_train.metrics.mcnemar import PairedTest, paired_test
from accel_train.metrics.predictions import Predictions, read_predictions


@dataclass(frozen=True)
class PairedRuns:
    """The test of two runs, or why there is none."""

    test: PairedTest | None
    notes: tuple[str, ...]
    """What limits the test, or prevents it, a sentence each."""


def compare_predictions(first: RunHistory, second: RunHistory) -> PairedRuns:
    """Return the test of two runs by their files of predictions: of the images that are in both."""
    tables: list[Predictions] = []
    for run in (first, second):
        path = run.folder / PREDICTIONS
        if not path.exists():
            return PairedRuns(None, (_how_to_get(run, path),))
        try:
            tables.append(read_predictions(path, _classes(run)))
        except UserError as error:
            return PairedRuns(None, (error.message,))
    notes = [f"{run.folder} was continued since its {PREDICTIONS}" for run in (first, second) if not run.finished]
    return _of_tables(first, second, tables, notes)


def _how_to_get(run: RunHistory, path: Path) -> str:
    """Return a note on predictions that are missing: those of a run are of its last weights."""
    if not run.finished:
        command = f"accel_train train --resume {quoted(run.folder)}"
        return f"{run.folder} has no {PREDICTIONS}: it has not finished; to continue it: {command}"
    command = f"accel_train evaluate {quoted(run.folder)} --predictions {quoted(path)}"
    return f"{run.folder} has no {PREDICTIONS}; to write it: {command}"


def _classes(run: RunHistory) -> tuple[str, ...]:
    contents = run.started.get("contents")
    classes = contents.get("classes") if isinstance(contents, dict) else None
    return tuple(map(str, classes)) if isinstance(classes, list) else ()


def _of_tables(first: RunHistory, second: RunHistory, tables: list[Predictions], notes: list[str]) -> PairedRuns:
    one, other = tables
    rows = {name: row for row, name in enumerate(other.images)}
    pairs = [(row, rows[name]) for row, name in enumerate(one.images) if name in rows]
    if not pairs:
        return PairedRuns(None, (f"{first.folder} and {second.folder} were validated on other images",))
    if left_out := len(one) + len(other) - 2 * len(pairs):
        notes.append(f"{quantity(left_out, 'image')} of only one of the two runs left out")
    of_one, of_other = np.array(pairs).T
    labels = [
        [table.classes[label] for label in table.labels_N[rows]] for table, rows in ((one, of_one), (other, of_other))
    ]
    if labels[0] != labels[1]:
        return PairedRuns(None, (f"{first.folder} and {second.folder} have other labels for the same images",))
    return PairedRuns(paired_test(one.correct_N[of_one], other.correct_N[of_other]), tuple(notes))
