"""Plots the learning rate of a run as a PNG."""

import io
from collections.abc import Sequence
from pathlib import Path

from accel_train.report.drawing import start_at_zero
from accel_train.system.atomic_files import write_output


def plot_schedule(path: Path, title: str, points: Sequence[tuple[float, float]], updates_per_epoch: int) -> None:
    """Write the learning rate by update, with epochs on a second axis.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="update", ylabel="learning rate")
    axes.set_title(title.replace("$", r"\$"), fontsize="medium")  # else mathematics
    axes.plot(*zip(*points, strict=True))
    start_at_zero(axes)
    axes.grid(alpha=0.3)
    by_epoch = (lambda update: update / updates_per_epoch, lambda epoch: epoch * updates_per_epoch)
    axes.secondary_xaxis("top", functions=by_epoch).set_xlabel("epoch")
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    write_output(path, content.getvalue(), "--png")
