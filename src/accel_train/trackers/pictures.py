"""Draws the pictures of a run that is complete.

Shape suffixes: K classes.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accel_train.history.files import DESCRIPTION, PREDICTIONS
from accel_train.metrics.classification import confusion_matrix
from accel_train.metrics.predictions import read_predictions
from accel_train.system.records import parse_json
from accel_train.system.regular_files import read_regular

CONFUSION = "confusion_matrix"
_FEW_CLASSES = 30
"""As many have their names and numbers in the picture."""


def draw_pictures(run_folder: Path, folder: Path) -> dict[str, Path]:
    """Draw the confusion matrix of the validation images as a PNG in a folder; none without predictions.csv."""
    if not (run_folder / PREDICTIONS).exists():
        return {}
    names = tuple(parse_json(read_regular(run_folder / DESCRIPTION))["classes"])
    found = read_predictions(run_folder / PREDICTIONS, names)
    path = folder / f"{CONFUSION}.png"
    _draw(path, names, confusion_matrix(found.labels_N, found.predicted_N, len(names)))
    return {CONFUSION: path}


def _draw(path: Path, names: tuple[str, ...], confusion_KK: NDArray[np.int64]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shares_KK = confusion_KK / np.maximum(confusion_KK.sum(axis=1, keepdims=True), 1)
    few = len(names) <= _FEW_CLASSES
    inches = max(6.0, 0.45 * len(names)) if few else 8.0
    figure = Figure(figsize=(inches, inches), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(shares_KK, cmap="Blues", vmin=0, vmax=1, interpolation="none")
    axes.set(xlabel="predicted class", ylabel="label")
    if few:
        labels = [_on_one_line(name) for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=90, parse_math=False)
        axes.set_yticks(range(len(names)), labels, parse_math=False)
        for label, predicted in zip(*np.nonzero(confusion_KK), strict=True):
            color = "white" if shares_KK[label, predicted] > 0.5 else "black"
            text = f"{confusion_KK[label, predicted]:,}"
            axes.text(predicted, label, text, ha="center", va="center", color=color, fontsize=8)
    figure.savefig(path)


def _on_one_line(name: str) -> str:
    shortened = name if len(name) <= 24 else name[:23] + "…"
    return shortened.encode("utf-8", "backslashreplace").decode().replace("\n", "\\n")
