"""Figures of a run over its updates: losses, accuracies, learning rate, gradient norm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from accel_train.events import EpochEnd
from accel_train.history.metrics_file import Metrics
from accel_train.loggers.text import learning_rate
from accel_train.report.drawing import BLUE, MUTED, ORANGE, as_svg, new_figure, start_at_zero

_FEW_EPOCHS = 40
"""As many are marked one by one."""
_STEPS = [1, 2, 2.5, 5, 10]
"""Of round numbers at the axis."""
_MOST_POINTS = 600
"""Of a curve over updates: more than a screen shows."""


@dataclass(frozen=True)
class Line:
    """A curve over epochs or parts of them."""

    label: str
    color: str
    epochs: Sequence[float]
    values: Sequence[float | None]
    """None where nothing was measured."""
    by_epoch: bool = True
    """Each value is that of a whole epoch."""


@dataclass(frozen=True)
class Chart:
    """A figure with a heading, and what its colours mean."""

    title: str
    svg: str
    legend: tuple[tuple[str, str], ...]
    """Colour, as a class of the page, and label of each curve."""


_CLASSES = {BLUE: "blue", ORANGE: "orange", MUTED: "muted"}


def charts(metrics: Metrics, updates_per_epoch: int) -> list[Chart]:
    """Return the figures for which a run has recorded anything."""
    epochs, progress = metrics.epochs, metrics.progress
    at = [epoch.update / updates_per_epoch for epoch in epochs]
    within = [each.update / updates_per_epoch for each in progress]
    local = [each.local_loss for each in progress]
    losses = [
        Line("each update", MUTED, *_thinned(within, local), by_epoch=False),
        Line("training", BLUE, at, [epoch.train_loss for epoch in epochs]),
        Line("validation", ORANGE, at, [epoch.val_loss for epoch in epochs]),
    ]
    accuracies = [
        Line("training", BLUE, at, [epoch.train_accuracy for epoch in epochs]),
        Line("validation", ORANGE, at, [epoch.val_accuracy for epoch in epochs]),
        *_averaged(epochs, at),
    ]
    rates = [Line("learning rate", BLUE, *_thinned(within, [each.lr for each in progress]), by_epoch=False)]
    norms = [Line("gradient norm", BLUE, *_thinned(within, [each.gradient_norm for each in progress]), by_epoch=False)]
    drawn = [
        _chart("Loss", losses, logarithmic=_spans_decades(losses)),
        _chart("Accuracy", accuracies, percent=True),
        _chart("Learning rate", rates),
        _chart("Gradient norm", norms, logarithmic=_spans_decades(norms)),
    ]
    return [chart for chart in drawn if chart]


def _averaged(epochs: Sequence[EpochEnd], at: Sequence[float]) -> list[Line]:
    values = [epoch.ema_val_accuracy for epoch in epochs]
    return [Line("validation of the averaged weights", MUTED, at, values)] * any(v is not None for v in values)


def _chart(title: str, lines: Sequence[Line], *, percent: bool = False, logarithmic: bool = False) -> Chart | None:
    """Draw curves; None if there is not one point."""
    lines = [line for line in lines if any(map(_is_number, line.values))]
    if not lines:
        return None
    figure, axes = new_figure()
    for order, line in enumerate(lines):
        is_marked = len(line.values) == 1 or (line.by_epoch and len(line.values) <= _FEW_EPOCHS)
        values = [value if _is_number(value) else math.nan for value in line.values]
        axes.plot(
            list(line.epochs),
            values,  # type: ignore[arg-type]  # numbers, or nan
            color=line.color,
            marker="o" if is_marked else None,
            markersize=4,
            linewidth=1 if line.color == MUTED else 2,
            alpha=0.6 if line.color == MUTED else 1,
            zorder=2 + order,
        )
    axes.set_xlabel("epoch")
    axes.set_xlim(0, 1.02 * max(line.epochs[-1] for line in lines))
    if logarithmic:
        axes.set_yscale("log")
        axes.grid(which="minor", visible=False)
    _label_values(axes, percent=percent, logarithmic=logarithmic)
    svg = as_svg(figure, title.lower().replace(" ", "-"), f"{title} by epoch")
    return Chart(title, svg, tuple((_CLASSES[line.color], line.label) for line in lines) if len(lines) > 1 else ())


def _label_values(axes: object, *, percent: bool, logarithmic: bool) -> None:
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    assert isinstance(axes, Axes)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=_STEPS, integer=axes.get_xlim()[1] > 3))
    if percent:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=_STEPS))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: learning_rate(value)))
        if not logarithmic:
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=_STEPS))
            start_at_zero(axes)
        axes.yaxis.set_minor_formatter(NullFormatter())


def _spans_decades(lines: Sequence[Line]) -> bool:
    values = [value for line in lines for value in line.values if _is_number(value)]
    return bool(values) and min(values) > 0 and max(values) > 100 * min(values)  # type: ignore[operator, type-var]


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _thinned(epochs: Sequence[float], values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Return a curve with at most `_MOST_POINTS` points; of each part the lowest and the highest remain, as spikes."""
    if len(values) <= _MOST_POINTS:
        return epochs, values
    parts = _MOST_POINTS // 2
    bounds = [len(values) * part // parts for part in range(parts + 1)]
    kept: set[int] = set()
    for low, high in pairwise(bounds):
        part = range(low, high)
        kept |= {min(part, key=values.__getitem__), max(part, key=values.__getitem__)}
    order = sorted(kept)
    return [epochs[i] for i in order], [values[i] for i in order]
