"""The curves of a run: spikes remain, what was not measured is a gap."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.reports import metrics
from matplotlib.figure import Figure

from accel_train.history.metrics_file import Metrics
from accel_train.report import curves
from accel_train.report.curves import Line, _spans_decades, _thinned, charts


def test_long_curves_keep_their_spikes() -> None:
    values = [1.0] * 100_000
    values[54_321], values[77_777] = 9.0, -3.0
    epochs, kept = _thinned([float(n) for n in range(100_000)], values)
    assert len(kept) <= 600
    assert (max(kept), min(kept)) == (9.0, -3.0)
    assert epochs[list(kept).index(9.0)] == 54_321.0
    assert list(epochs) == sorted(epochs)


def test_losses_over_decades_have_a_logarithmic_axis() -> None:
    def line(*values: float | None) -> Line:
        return Line("loss", "#010102", range(len(values)), values)

    assert _spans_decades([line(2.0, 0.01)])
    assert not _spans_decades([line(2.0, 0.1)])
    assert not _spans_decades([line(2.0, 0.0)])
    assert not _spans_decades([line(None, math.nan)])


def test_run_without_progress_has_curves_of_epochs() -> None:
    found = replace(metrics(3), progress=[])
    assert [(chart.title, [label for _, label in chart.legend]) for chart in charts(found, 22)] == [
        ("Loss", ["training", "validation"]),
        ("Accuracy", ["training", "validation"]),
    ]


def test_averaged_weights_have_a_curve_of_their_own() -> None:
    found = metrics(3)
    found.epochs[:] = [
        replace(epoch, ema_val_accuracy=0.9, train_loss=None, val_loss=math.nan) for epoch in found.epochs
    ]
    loss, accuracy, *_ = charts(found, 22)
    assert [label for _, label in accuracy.legend] == ["training", "validation", "validation of the averaged weights"]
    assert loss.legend == ()  # only that of updates is left


def test_nothing_trained_has_no_charts() -> None:
    assert charts(Metrics(), 1) == []


@pytest.mark.parametrize("epochs", [1, 3])
def test_constant_rate_and_a_single_epoch_are_below_the_edge(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(curves, "as_svg", lambda figure, *_: figures.append(figure) or "")
    found = metrics(epochs)
    charts(replace(found, progress=[replace(each, lr=0.1) for each in found.progress]), 22)
    assert len(figures) == 4
    for axes in (figure.axes[0] for figure in figures):
        bottom, top = axes.get_ylim()
        highest = max(float(np.nanmax(line.get_ydata())) for line in axes.lines)
        assert (top - highest) / (top - bottom) > 0.04
