"""Plots the curves of runs over one another as a PNG."""

import io
import warnings
from collections.abc import Mapping
from pathlib import Path

from accel_train.history.run import RunHistory
from accel_train.system.atomic_files import write_output


def plot_runs(path: Path, runs: Mapping[str, RunHistory]) -> None:
    """Write the losses and accuracies of runs, by their name in the legend.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    training, loss, accuracy = figure.subplots(1, 3)
    training.set(title="training loss of updates, first process", xlabel="update")
    loss.set(title="validation loss", xlabel="epoch")
    accuracy.set(title="validation accuracy", xlabel="epoch")
    for name, run in runs.items():
        label = name.replace("$", r"\$")  # else mathematics
        progress, epochs = run.metrics.progress, [epoch.epoch for epoch in run.epochs]
        training.plot([p.update for p in progress], [p.local_loss for p in progress], linewidth=1, label=label)
        loss.plot(epochs, [epoch.val_loss for epoch in run.epochs], ".-", label=label)
        accuracy.plot(epochs, [epoch.selection_accuracy for epoch in run.epochs], ".-", label=label)
    for axes in (training, loss, accuracy):
        axes.grid(alpha=0.3)
    for axes in (loss, accuracy):
        axes.xaxis.get_major_locator().set_params(integer=True)
    handles, labels = accuracy.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", frameon=False)
    content = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # of letters that the font lacks
        figure.savefig(content, format="png", dpi=120)
    write_output(path, content.getvalue(), "--png")
