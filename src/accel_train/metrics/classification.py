"""How often predictions are right: in all, by class, and which classes are taken for which.

Shape suffixes: N images, K classes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]

_Z = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5 % on each side."""


def wilson(correct: int, images: int) -> tuple[float, float]:
    """Return the 95 % interval of an accuracy (Wilson, 1927); of no images everything is possible."""
    if images == 0:
        return 0.0, 1.0
    share, weight = correct / images, _Z**2 / images
    centre = share + weight / 2
    margin = _Z * np.sqrt(share * (1 - share) / images + weight / (4 * images))
    low, high = float((centre - margin) / (1 + weight)), float((centre + margin) / (1 + weight))
    return low if correct else 0.0, high if correct < images else 1.0  # without rounding errors


def confusion_matrix(labels_N: Counts, predicted_N: Counts, classes: int) -> Counts:
    """Return the number of images of each label (row) by prediction (column), shape (K, K)."""
    pairs_N = labels_N * classes + predicted_N
    return np.bincount(pairs_N, minlength=classes**2).reshape(classes, classes)


@dataclass(frozen=True)
class ClassScores:
    """Scores of each class; NaN where they are not defined."""

    images_K: Counts
    predicted_K: Counts
    """Images taken for the class."""
    correct_K: Counts
    precision_K: Shares
    """Share of the images taken for the class that are of it; NaN of a class that is never predicted."""
    recall_K: Shares
    """Share of the images of the class that are found; NaN of a class without images."""
    f1_K: Shares
    """Harmonic mean of both; NaN of a class that has no images and is never predicted."""


def class_scores(confusion_KK: Counts) -> ClassScores:
    """Return the scores of each class."""
    images_K, predicted_K = confusion_KK.sum(axis=1), confusion_KK.sum(axis=0)
    correct_K = confusion_KK.diagonal()
    return ClassScores(
        images_K=images_K,
        predicted_K=predicted_K,
        correct_K=correct_K,
        precision_K=_shares(correct_K, predicted_K),
        recall_K=_shares(correct_K, images_K),
        f1_K=_shares(2 * correct_K, images_K + predicted_K),
    )


def balanced_accuracy(confusion_KK: Counts) -> float:
    """Return the mean recall of the classes that have images; NaN if none has."""
    recall_K = class_scores(confusion_KK).recall_K
    with_images = ~np.isnan(recall_K)
    return float(recall_K[with_images].mean()) if with_images.any() else float("nan")


def most_confused(confusion_KK: Counts, most: int) -> list[tuple[int, int, int]]:
    """Return label, prediction and number of images of the most frequent mistakes, the most frequent first."""
    mistakes_KK = confusion_KK.copy()
    np.fill_diagonal(mistakes_KK, 0)
    flat = mistakes_KK.ravel()
    made = np.flatnonzero(flat)
    pairs = made[np.argsort(-flat[made], kind="stable")][:most]
    return [(int(pair) // len(confusion_KK), int(pair) % len(confusion_KK), int(flat[pair])) for pair in pairs]


def _shares(part_K: Counts, whole_K: Counts) -> Shares:
    shares_K: Shares = np.divide(part_K, whole_K, out=np.full(len(part_K), np.nan), where=whole_K > 0)
    return shares_K
