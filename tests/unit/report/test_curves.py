"""The curves of a run: spikes remain, what was not measured is a gap."""

import math
from dataclasses import replace

from helpers.reports import metrics

from accel_train.history.metrics_file import Metrics
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
