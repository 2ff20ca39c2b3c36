"""The predictions of a model for a split: a table with one row an image, as CSV or Parquet.

Shape suffixes: N images.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel_train.errors import UserError, shown
from accel_train.system.atomic_files import refuse_stdout, refuse_unwritable, write_file
from accel_train.system.regular_files import read_regular

COLUMNS = ("image", "label", "predicted", "confidence", "label_probability", "label_rank")
_CSV, _PARQUET = ".csv", (".parquet", ".pq")
_MOST_BYTES = 2**32
Probabilities = NDArray[np.float32]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Predictions:
    """One row an image, in the order of the split: row i is that of image id i."""

    classes: tuple[str, ...]
    images: tuple[str, ...]
    """Name of each image: the path of its file below the split, else its number."""
    labels_N: Indices
    """Index of the class; likewise `predicted_N`."""
    predicted_N: Indices
    confidences_N: Probabilities
    """Probability of the predicted class."""
    label_probabilities_N: Probabilities
    label_ranks_N: Indices
    """Place of the label among the classes, the most probable one first: 1 if the prediction is correct."""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def correct_N(self) -> NDArray[np.bool_]:
        """Whether each prediction is the label."""
        correct_N: NDArray[np.bool_] = self.label_ranks_N == 1
        return correct_N


def check_predictions_file(path: Path, option: str) -> None:
    """Check that predictions can be written to a file, before they are computed.

    Raises:
        UserError: its ending is not known, its folder cannot be written to or a library is missing.
    """
    refuse_stdout(path, option)
    if _ending(path) not in (_CSV, *_PARQUET):
        raise UserError(f"{option} {path}: the table is a CSV or Parquet file", "end its name with .csv or .parquet")
    refuse_unwritable(path, option, of_run="predictions.csv")
    if _ending(path) in _PARQUET:
        _pyarrow()


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write the table atomically; equal predictions make equal bytes.

    Raises:
        OSError: it cannot be written.
    """
    columns = _columns(predictions)
    write_file(path, _parquet_bytes(columns) if _ending(path) in _PARQUET else _csv_bytes(columns))


def read_predictions(path: Path, classes: tuple[str, ...]) -> Predictions:
    """Read a table that :func:`write_predictions` has written for a model of these classes.

    Raises:
        UserError: it cannot be read, or is not the table of such a model.
    """
    try:
        columns = _read_parquet(path) if _ending(path) in _PARQUET else _read_csv(read_regular(path, _MOST_BYTES))
        return _checked(columns, classes)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", "give a file that exists") from None
    except ValueError as error:
        raise UserError(
            f"{path} is not a table of predictions for {len(classes):,} classes: {error}",
            "write it again with `accel_train evaluate RUN --predictions FILE`",
        ) from None


def written_name(name: str) -> str:
    """Return a name as it is written: bytes that are not UTF-8 as \\udcXX."""
    return name.encode("utf-8", errors="backslashreplace").decode()


def _columns(predictions: Predictions) -> dict[str, Any]:
    classes = np.array(list(map(written_name, predictions.classes)), dtype=object)
    values = (
        list(map(written_name, predictions.images)),
        classes[predictions.labels_N].tolist(),
        classes[predictions.predicted_N].tolist(),
        predictions.confidences_N,
        predictions.label_probabilities_N,
        predictions.label_ranks_N,
    )
    return dict(zip(COLUMNS, values, strict=True))


def _csv_bytes(columns: dict[str, Any]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    # numpy writes the shortest digits that give the same number again
    texts = (column.astype(str) if isinstance(column, np.ndarray) else column for column in columns.values())
    writer.writerows(zip(*texts, strict=True))
    return text.getvalue().encode()


def _parquet_bytes(columns: dict[str, Any]) -> bytes:
    arrow, parquet = _pyarrow()
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns), content)
    return content.getvalue()


def _read_csv(data: bytes) -> dict[str, Sequence[Any]]:
    rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    try:
        header = tuple(next(rows, ()))
        table = list(rows)
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num:,}: {error}") from None
    if short := next((number for number, row in enumerate(table, start=1) if len(row) != len(header)), None):
        raise ValueError(f"row {short:,} has {len(table[short - 1]):,} values instead of {len(header):,}")
    return dict(zip(header, list(zip(*table, strict=True)) or [()] * len(header), strict=False))


def _read_parquet(path: Path) -> dict[str, Sequence[Any]]:
    arrow, parquet = _pyarrow()
    try:
        columns: dict[str, Sequence[Any]] = parquet.read_table(io.BytesIO(read_regular(path, _MOST_BYTES))).to_pydict()
    except arrow.ArrowException as error:
        raise ValueError(str(error).splitlines()[0]) from None
    return columns


def _checked(columns: dict[str, Sequence[Any]], classes: tuple[str, ...]) -> Predictions:
    """Return the table of columns as read.

    Raises:
        ValueError: they cannot be those of predictions for these classes.
    """
    if missing := [name for name in COLUMNS if name not in columns]:
        raise ValueError(f"it has no column {missing[0]}")
    numbers = {written_name(name): number for number, name in enumerate(classes)}
    confidence, of_label = (_numbers(name, columns[name], float, np.float32) for name in COLUMNS[3:5])
    found = Predictions(
        classes=classes,
        images=tuple(map(str, columns["image"])),
        labels_N=_numbers("label", columns["label"], numbers.__getitem__, np.int64),
        predicted_N=_numbers("predicted", columns["predicted"], numbers.__getitem__, np.int64),
        confidences_N=confidence,
        label_probabilities_N=of_label,
        label_ranks_N=_numbers("label_rank", columns["label_rank"], int, np.int64),
    )
    if not ((found.label_ranks_N >= 1) & (found.label_ranks_N <= len(classes))).all():
        raise ValueError(f"a label_rank is not between 1 and {len(classes):,}")
    if not np.array_equal(found.correct_N, found.labels_N == found.predicted_N):
        raise ValueError("a label_rank contradicts the prediction")
    return found


def _numbers(column: str, values: Sequence[Any], convert: Callable[[Any], Any], dtype: Any) -> NDArray[Any]:
    numbers = np.empty(len(values), dtype=dtype)
    for row, value in enumerate(values):
        try:
            numbers[row] = convert(value)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError(f"row {row + 1:,} has the {column} {shown(value)}") from None
    return numbers


def _ending(path: Path) -> str:
    return path.suffix.lower()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            "a Parquet file needs the package pyarrow, which is not installed",
            "pip install 'accel_train[parquet]', or give a .csv file",
        ) from None
    return pyarrow, pyarrow.parquet
