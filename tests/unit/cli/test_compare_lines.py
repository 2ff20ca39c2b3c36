"""A comparison is told in sentences with their figures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.histories import predicting_run, progress

from accel_train.cli.compare_lines import comparison_lines
from accel_train.history.compared import compare_runs
from accel_train.history.run import RunHistory
from accel_train.history.summary import summarize

LABELS = {str(number): number % 10 for number in range(40)}


def with_progress(run: RunHistory, *events: Any, **started: Any) -> RunHistory:
    metrics = replace(run.metrics, progress=list(events), started={**run.metrics.started, **started})
    return replace(run, metrics=metrics)


def last_lines(tmp_path: Path, wrong: tuple[int, int], runs: Sequence[Any] = ((), ())) -> list[str]:
    """Compare a run that errs on the first images with one that errs on the last ones."""
    errors = ([number < wrong[0] for number in range(40)], [number >= 40 - wrong[1] for number in range(40)])
    predicted = [
        {name: (label + wrongly) % 10 for (name, label), wrongly in zip(LABELS.items(), of_run, strict=True)}
        for of_run in errors
    ]
    histories = [
        with_progress(predicting_run(tmp_path / str(number), each, LABELS), *events)
        for number, (each, events) in enumerate(zip(predicted, runs, strict=True))
    ]
    compared = compare_runs(
        dict(zip("AB", histories, strict=True)), [summarize(run, running=False) for run in histories], None
    )
    return [line for line in comparison_lines(compared) if line.startswith("A and B: ")]


def test_significant_difference_names_the_better_run(tmp_path: Path) -> None:
    assert last_lines(tmp_path, (12, 1))[1] == (
        "A and B: B is better: of 40 images only A has 1 right and only B 12; accuracy of B +27.50 points "
        "(95 % interval +9.94 to +42.44), p = 0.0034 (McNemar, exact)"
    )


def test_difference_by_chance_is_not_called_better(tmp_path: Path) -> None:
    assert last_lines(tmp_path, (3, 5))[1].startswith(
        "A and B: no significant difference: of 40 images only A has 5 right and only B 3; accuracy of B -5.00 points "
    )


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((), (), "no update that both have logged"),
        ((progress(5),), (progress(5),), "equal to the last bit up to update 5, the last that both have logged"),
        (
            (progress(5), progress(10)),
            (progress(5), progress(10, local_loss=1.25)),
            "equal up to update 5, first differ at update 10: loss 1.5 and 1.25",
        ),
        (
            (progress(5),),
            (progress(5, lr=0.2, local_loss=1.25),),
            "first differ at update 5: learning rate 0.1 and 0.2, losses 1.5000 and 1.2500",
        ),
        (
            (progress(5),),
            (progress(5, local_ids_hash="ff00"),),
            "first differ at update 5: images 00ff and ff00, losses 1.5000 and 1.5000",
        ),
    ],
)
def test_where_runs_part_is_told_with_their_losses(first: Any, second: Any, text: str, tmp_path: Path) -> None:
    assert last_lines(tmp_path, (0, 0), (first, second))[0] == f"A and B: {text}"
