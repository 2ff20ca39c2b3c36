"""Plots an LR range test as a PNG."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accel_train.system.atomic_files import write_output

if TYPE_CHECKING:
    from accel_train.training.lr_range import Suggestion, Tried


def plot_range(path: Path, title: str, tried: Sequence["Tried"], suggestion: "Suggestion") -> None:
    """Write the loss of each update by its learning rate, and the suggestion as a vertical line.

    Raises:
        UserError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot(xscale="log", xlabel="learning rate", ylabel="training loss")
    axes.set_title(title.replace("$", r"\$"), fontsize="medium")  # else mathematics
    rates = [each.lr for each in tried]
    axes.plot(rates, [each.loss if math.isfinite(each.loss) else math.nan for each in tried], ".", label="each update")
    axes.plot(rates, suggestion.losses, linewidth=2, label="smoothed")
    axes.set_ylim(0, 2 * suggestion.losses[0])
    if suggestion.lr is not None:
        axes.axvline(suggestion.lr, color="black", linestyle="--", label=f"suggestion: {suggestion.lr:g}")
    axes.grid(alpha=0.3)
    axes.legend()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    write_output(path, content.getvalue(), "--png")
