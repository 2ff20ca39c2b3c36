"""Figures of predictions: calibration, and the confusion matrix of many classes.

Shape suffixes: K classes.
"""

import numpy as np
from numpy.typing import NDArray

from accel_train.metrics.calibration import Reliability
from accel_train.report.drawing import BLUE, MUTED, ORANGE, SURFACE, as_svg, new_figure

_SQUARE = (5.2, 5.0)
_BLUE_RGB, _ORANGE_RGB = (74, 125, 214), (226, 109, 38)
"""Colours of pixels, which cannot follow the page's: they are visible on light and dark ground."""

_FAINTEST = 70
"""Opacity, of 255, of the rarest mistake."""


def reliability_diagram(found: Reliability) -> str:
    """Return a figure of accuracy by confidence; the gaps to the diagonal are the calibration error."""
    from matplotlib.ticker import PercentFormatter

    figure, axes = new_figure()
    filled = found.images_M > 0
    lefts, width = found.edges[:-1][filled], found.edges[1] - found.edges[0]
    accuracies, confidences = found.accuracies_M[filled], found.confidences_M[filled]
    axes.bar(lefts, accuracies, width, align="edge", color=BLUE, edgecolor=SURFACE, linewidth=1, alpha=0.85)
    for left, accuracy, confidence in zip(lefts, accuracies, confidences, strict=True):
        axes.plot([left + width * 0.08, left + width * 0.92], [confidence] * 2, color=ORANGE, linewidth=2.4)
        axes.plot([left + width / 2] * 2, [accuracy, confidence], color=ORANGE, linewidth=1, alpha=0.7)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence of the prediction", ylabel="correct")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    return as_svg(figure, "reliability", "Accuracy of the predictions by their confidence")


def confidence_histogram(found: Reliability) -> str:
    """Return a figure of the number of images by confidence."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    figure, axes = new_figure()
    width = found.edges[1] - found.edges[0]
    correct = np.nan_to_num(found.accuracies_M) * found.images_M
    wrong = found.images_M - correct
    axes.bar(found.edges[:-1], correct, width, align="edge", color=BLUE, edgecolor=SURFACE, alpha=0.85)
    axes.bar(found.edges[:-1], wrong, width, bottom=correct, align="edge", color=ORANGE, edgecolor=SURFACE)
    axes.set(xlim=(0, 1), xlabel="confidence of the prediction", ylabel="images")
    axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return as_svg(figure, "confidence", "Number of images by the confidence of their prediction")


def matrix_image(shares_KK: NDArray[np.float64], classes: int) -> str:
    """Return a figure of a matrix too large to be read cell by cell; rare mistakes are made visible."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    pixels = np.zeros((*shares_KK.shape, 4), dtype=np.uint8)
    pixels[..., :3] = _ORANGE_RGB
    diagonal = np.arange(len(shares_KK))
    pixels[diagonal, diagonal, :3] = _BLUE_RGB
    pixels[..., 3] = np.where(shares_KK > 0, np.rint(_FAINTEST + (255 - _FAINTEST) * np.sqrt(shares_KK)), 0)
    figure, axes = new_figure(_SQUARE)
    axes.grid(visible=False)
    axes.imshow(pixels, extent=(0.5, classes + 0.5, classes + 0.5, 0.5), interpolation="none")
    axes.set(xlabel="number of the predicted class", ylabel="number of the label")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else ""))
    return as_svg(figure, "matrix", "Confusion matrix of all classes")
