"""Where a model errs by class: scores of each class, the most confused pairs, and the confusion matrix as a table.

Shape suffixes: K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel_train.metrics.classification import ClassScores, Counts, class_scores, most_confused, wilson

FEW_CLASSES = 20
"""As many are shown as a whole matrix, and one by one."""
_WORST = 15
"""Classes shown of more than a few; the others are in a table that opens."""
_MOST_ROWS = 1_000
"""Of the table that opens."""
_IN_EXCERPT = 10
_MOST_PAIRS = 12


@dataclass(frozen=True)
class ClassRow:
    """The scores of one class; None where they are not defined."""

    name: str
    images: int
    recall: float | None
    interval: tuple[float, float]
    """95 % interval of the recall."""
    precision: float | None
    f1: float | None


@dataclass(frozen=True)
class Pair:
    """Images of one class that were taken for another."""

    label: str
    predicted: str
    images: int
    of: int
    """Images of the class."""


@dataclass(frozen=True)
class Cell:
    """Images of one class that were taken for a class."""

    images: int
    share: float
    """Of the images of the row's class."""
    is_correct: bool = False


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix, or an excerpt of it."""

    names: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    """By label; cells by prediction, in an excerpt followed by one for all other predictions."""
    is_excerpt: bool


@dataclass(frozen=True)
class Classes:
    """What the page shows of the classes."""

    rows: tuple[ClassRow, ...]
    """The lowest F1 first; classes without images last."""
    shown: int
    """Rows that are not folded away."""
    pairs: tuple[Pair, ...]
    matrix: Matrix
    never_predicted: tuple[str, ...]


def describe_classes(names: Sequence[str], confusion_KK: Counts) -> Classes:
    """Return what to show of a confusion matrix, whose rows are labels."""
    scores = class_scores(confusion_KK)
    rows = sorted((_row(names[k], scores, k) for k in range(len(names))), key=_order)
    confused = most_confused(confusion_KK, max(_MOST_PAIRS, _IN_EXCERPT**2))
    few = len(names) <= FEW_CLASSES
    never = np.flatnonzero((scores.predicted_K == 0) & (scores.images_K > 0))
    chosen = list(range(len(names))) if few else _involved(confused, scores)
    return Classes(
        rows=tuple(rows[:_MOST_ROWS]),
        shown=len(rows) if few else min(_WORST, len(rows)),
        pairs=tuple(
            Pair(names[label], names[predicted], images, int(scores.images_K[label]))
            for label, predicted, images in confused[:_MOST_PAIRS]
        ),
        matrix=_matrix(names, confusion_KK, chosen, is_excerpt=not few),
        never_predicted=tuple(names[k] for k in never.tolist()),
    )


def pooled_shares(confusion_KK: Counts, most: int) -> NDArray[np.float64]:
    """Return the share of each row's images by prediction, reduced to at most `most` rows and columns.

    Each of these is the largest share of the cells that it stands for: a mistake remains visible.
    """
    classes = len(confusion_KK)
    shares_KK: NDArray[np.float64] = confusion_KK / np.maximum(confusion_KK.sum(axis=1, keepdims=True), 1)
    if classes <= most:
        return shares_KK
    starts = np.arange(most) * classes // most
    pooled_KK: NDArray[np.float64] = np.maximum.reduceat(np.maximum.reduceat(shares_KK, starts, axis=0), starts, axis=1)
    return pooled_KK


def _row(name: str, scores: ClassScores, k: int) -> ClassRow:
    images, correct = int(scores.images_K[k]), int(scores.correct_K[k])
    recall, precision, f1 = (
        None if np.isnan(values[k]) else float(values[k])
        for values in (scores.recall_K, scores.precision_K, scores.f1_K)
    )
    return ClassRow(name, images, recall, wilson(correct, images), precision, f1)


def _order(row: ClassRow) -> tuple[bool, float, int]:
    return row.images == 0, row.f1 or 0.0, -row.images


def _involved(confused: Sequence[tuple[int, int, int]], scores: ClassScores) -> list[int]:
    """Return the classes of the most confused pairs, in their order; without mistakes those with most images."""
    chosen: list[int] = []
    for label, predicted, _ in confused:
        pair = [k for k in (label, predicted) if k not in chosen]
        if len(chosen) + len(pair) > _IN_EXCERPT:
            break
        chosen += pair
    return sorted(chosen) or sorted(np.argsort(-scores.images_K, kind="stable")[:_IN_EXCERPT].tolist())


def _matrix(names: Sequence[str], confusion_KK: Counts, chosen: Sequence[int], *, is_excerpt: bool) -> Matrix:
    rows = []
    for label in chosen:
        total = max(1, int(confusion_KK[label].sum()))
        counts = [int(confusion_KK[label, predicted]) for predicted in chosen]
        cells = [
            Cell(images, images / total, label == predicted) for predicted, images in zip(chosen, counts, strict=True)
        ]
        if is_excerpt:
            rest = int(confusion_KK[label].sum()) - sum(counts)
            cells.append(Cell(rest, rest / total))
        rows.append(tuple(cells))
    return Matrix(tuple(names[k] for k in chosen), tuple(rows), is_excerpt)
