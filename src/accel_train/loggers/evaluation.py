"""The result of an evaluation as text: rows, a table of the classes, the confusion matrix."""

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

from accel_train.events import ClassResult, Evaluated
from accel_train.loggers.rows import Row
from accel_train.loggers.text import accuracy, printable, quantity

_MANY_CLASSES = 10
"""With more of them, top-5 accuracy is of interest too."""
_MOST_PAIRS = 5
_MOST_NAME = 30
"""Columns of the name of a class in a table."""
_GAP = 2


def result_line(found: Evaluated) -> str:
    """Return the result in one line."""
    split = " (test)" * (found.split == "test")
    place = f"{found.run_folder} ({found.weights}) on {found.data}{split}"
    top5 = f", top-5 accuracy {found.top5:.4f}" * _has_many_classes(found)
    balanced = f", balanced accuracy {found.balanced_accuracy:.4f}"
    balanced *= f"{found.balanced_accuracy:.4f}" != f"{found.accuracy:.4f}"
    result = f"loss {found.loss:.4f}, accuracy {found.accuracy:.4f}{balanced}{top5}"
    return f"{place}: {quantity(found.images, 'image')}, {result}"


def result_rows(found: Evaluated) -> list[Row]:
    """Return what else there is to say of all images."""
    intervals = [("accuracy", found.accuracy_interval)]
    intervals += [("top-5", found.top5_interval)] * _has_many_classes(found)
    texts = [f"{name} {low:.4f} to {high:.4f}" for name, (low, high) in intervals]
    certain = (
        f"predictions have a mean probability of {found.mean_confidence:.4f}, their accuracy is {found.accuracy:.4f}"
    )
    rows = [("95 % interval", ", ".join(texts)), ("calibration", f"error {found.ece:.4f} (ECE): {certain}")]
    return rows + _confused_row(found)


def class_table(found: Evaluated) -> list[str]:
    """Return a table with one line a class."""
    rows = [("class", "images", "precision", "recall", "F1"), *map(_class_row, found.per_class)]
    return _aligned(rows)


def confusion_table(found: Evaluated, width: int) -> list[str]:
    """Return the confusion matrix, a row for each label; nothing if it does not fit into `width` columns."""
    names = [_shortened(one.name, _MOST_NAME) for one in found.per_class]
    title = "label \\ prediction"
    first = max(map(cell_len, [title, *names]))
    digits = max(len(str(count)) for row in found.confusion for count in row)
    cell = (width - first) // len(names) - _GAP
    if cell < max(digits, 3):
        return []
    cell = min(cell, max(digits, *map(cell_len, names)))
    header = (title, *(_shortened(name, cell) for name in names))
    body = [
        (name, *(str(count) if count else "." for count in row))
        for name, row in zip(names, found.confusion, strict=True)
    ]
    return _aligned([header, *body])


def _class_row(one: ClassResult) -> tuple[str, ...]:
    scores = map(accuracy, (one.precision, one.recall, one.f1))
    return _shortened(one.name, _MOST_NAME), f"{one.images:,}", *scores


def _confused_row(found: Evaluated) -> list[Row]:
    pairs = _most_confused(found)
    if not pairs:
        return []
    listed = [f"{name} → {taken} ({count:,} of {images:,})" for name, taken, count, images in pairs[:_MOST_PAIRS]]
    more = len(pairs) - len(listed)
    mistakes = sum(count for _, _, count, _ in pairs)
    others = f" and {quantity(more, 'more pair')}" * (more > 0)
    return [("confused", f"{mistakes:,} of {quantity(found.images, 'image')}: {', '.join(listed)}{others}")]


def _most_confused(found: Evaluated) -> list[tuple[str, str, int, int]]:
    """Return label, prediction, their images and the images of the label, the most frequent mistake first."""
    pairs = [
        (one.name, found.per_class[column].name, count, one.images)
        for row, one in enumerate(found.per_class)
        for column, count in enumerate(found.confusion[row])
        if count and column != row
    ]
    return sorted(pairs, key=lambda pair: -pair[2])


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines whose columns are aligned: the first one left, the others right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        (first + _spaces(first, widths[0]))
        + "".join(" " * _GAP + _spaces(text, width) + text for text, width in zip(rest, widths[1:], strict=True))
        for first, *rest in rows
    ]


def _spaces(text: str, width: int) -> str:
    return " " * (width - cell_len(text))


def _shortened(name: str, width: int) -> str:
    """Return a name in at most `width` columns of a terminal; a Chinese character takes two."""
    name = printable(name)
    return name if cell_len(name) <= width else chop_cells(name, width - 1)[0] + "…"


def _has_many_classes(found: Evaluated) -> bool:
    return found.classes > _MANY_CLASSES
