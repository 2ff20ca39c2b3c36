"""Reads a file of labels, CSV or Parquet: the file, the label and perhaps the split of each picture."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.data.sources.names import normalized, split_name
from accel_train.errors import UserError, shown
from accel_train.loggers.text import quantity, quoted
from accel_train.system.regular_files import open_regular, read_regular

_COLUMNS = {
    "file": ("file", "filename", "file_name", "filepath", "file_path", "path", "image", "image_path"),
    "label": ("label", "class", "class_name"),
    "split": ("split", "subset"),
}
"""Names of each column, in any case; the first that the file has is used."""
_DELIMITERS = ",;\t"
_PARQUET = (".parquet", ".pq")
_MOST_BYTES = 2**30
_MOST_NAMED = 8
ONE_LABEL = "give each picture one label: several labels per picture cannot be trained on yet"


@dataclass(frozen=True)
class Table:
    """The columns of a file as it holds them."""

    columns: dict[str, Sequence[Any]]
    """By name."""
    numbers: Sequence[int]
    """Of the lines or rows, as a user counts them."""
    unit: str
    """line or row."""


@dataclass(frozen=True)
class Labels:
    """What a file of labels holds, one entry for each picture."""

    path: Path
    files: Sequence[str]
    labels: Sequence[str]
    splits: Sequence[str] | None
    """train, val or test; None if the file has no such column."""
    unused: tuple[str, ...]
    """The other columns, to print."""
    numbers: Sequence[int]
    unit: str

    def place(self, position: int) -> str:
        """Return where an entry is, for a message."""
        return f"{self.path}, {self.unit} {self.numbers[position]}"


def read_labels(path: Path, label_column: str | None) -> Labels:
    """Read a file of labels.

    Raises:
        UserError: it cannot be read, a column is missing, or an entry has no label, several, or no known split.
    """
    try:
        table = _read_parquet(path) if path.suffix.lower() in _PARQUET else _read_csv(path)
    except OSError as error:
        raise UserError(
            f"--labels {quoted(path)}: {error.strerror or error}", "give a .csv or .parquet file that exists"
        ) from None
    chosen = _choose_columns(path, table, label_column)

    def column(kind: str, convert: Callable[[object, str], str]) -> list[str]:
        return _converted(
            table.columns[chosen[kind]], convert, lambda row: f"{path}, {table.unit} {table.numbers[row]}"
        )

    labels = Labels(
        path,
        column("file", _file),
        column("label", _label),
        column("split", _split) if "split" in chosen else None,
        tuple(name or "one without a name" for name in table.columns if name not in chosen.values()),
        table.numbers,
        table.unit,
    )
    if not labels.files:
        raise UserError(f"{path} lists no pictures", "write a line for each: its file and its label")
    _refuse_joined_labels(labels)
    return labels


def _converted(
    values: Sequence[object], convert: Callable[[object, str], str], place: Callable[[int], str]
) -> list[str]:
    """Convert each distinct value once, with its first place for a message."""
    found: dict[object, str] = {}
    converted = []
    for row, value in enumerate(values):
        key = value if isinstance(value, str) else repr(value)
        if key not in found:
            found[key] = convert(value, place(row))
        converted.append(found[key])
    return converted


def _read_csv(path: Path) -> Table:
    data = read_regular(path, _MOST_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path} is not UTF-8: byte {data[error.start]:#x} in line {line}", "save it as UTF-8"
        ) from None
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        for row in reader:
            if row:  # an empty line
                rows.append(row)
                numbers.append(reader.line_num)
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}", "write it as CSV: file,label") from None
    if not rows:
        raise UserError(f"{path} is empty", "begin it with the line file,label or file,label,split")
    header = [name.strip() for name in rows[0]]
    _refuse_repeated(path, header)
    for row, number in zip(rows, numbers, strict=True):
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {number} has {quantity(len(row), 'value')}, the first line {len(header)}",
                "put values that hold a comma into double quotes",
            )
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in header)
    return Table(dict(zip(header, columns, strict=True)), numbers[1:], "line")


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UserError(
            f"--labels {quoted(path)}: Parquet needs pyarrow", "run: pip install 'accel_train[parquet]'"
        ) from None
    with open_regular(path) as file:  # an error about the file is not pyarrow's
        try:
            table = parquet.ParquetFile(file).read()
        except (ArrowException, OSError, ValueError) as error:
            raise UserError(f"{path} is not Parquet: {' '.join(str(error).split())}", "write the file again") from None
    _refuse_repeated(path, table.column_names)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return Table(columns, range(1, table.num_rows + 1), "row")


def _refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Refuse two columns of one name: one of them would be used in silence.

    Raises:
        UserError: there are such columns.
    """
    for name, count in Counter(names).items():
        if name and count > 1:
            raise UserError(f"{path} has {count} columns {shown(name)}", "give each column a name of its own")


def _choose_columns(path: Path, table: Table, label_column: str | None) -> dict[str, str]:
    """Return the name of the column of files, that of labels, and that of splits if there is one."""
    if label_column and label_column not in table.columns:
        raise UserError(f"--label-column {label_column}: {path} has {_listed(table)}", "give the name of one of them")
    read = {name.casefold(): name for name in reversed(table.columns)}
    found = {kind: next((read[name] for name in names if name in read), None) for kind, names in _COLUMNS.items()}
    chosen = {kind: name for kind, name in found.items() if name} | ({"label": label_column} if label_column else {})
    if "file" in chosen and "label" in chosen:
        return chosen
    missing = "label" if "file" in chosen else "file"
    others = [column for name, column in table.columns.items() if name not in chosen.values()]
    if missing == "label" and len(others) > 1 and all(str(value) in ("0", "1") for each in others for value in each):
        raise UserError(f"{path} has a column for each class: {_listed(table)}", ONE_LABEL)
    more = ", or give --label-column NAME" * (missing == "label")
    raise UserError(
        f"{path} has no column {missing}: it has {_listed(table)}",
        f"begin it with the line file,label or file,label,split{more}",
    )


def _listed(table: Table) -> str:
    names = list(map(shown, table.columns))
    more = len(names) - _MOST_NAMED
    return f"the columns {', '.join(names[:_MOST_NAMED])}" + f" and {more:,} more" * (more > 0)


def _file(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"{place} has the file {shown(value)}", "give the path of a picture")
    return value


def _label(value: object, place: str) -> str:
    """Return a label as text; whole numbers may be stored as floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list | tuple | dict):
        raise UserError(f"{place} has several labels: {shown(value)}", ONE_LABEL)
    name = normalized(str(value).strip()) if isinstance(value, str | int) else ""
    if not name:
        raise UserError(f"{place} has the label {shown(value)}", "give the name of a class, or remove the picture")
    return name


def _split(value: object, place: str) -> str:
    split = split_name(value) if isinstance(value, str) else None
    if split is None or split.rest:
        raise UserError(f"{place} has the split {shown(value)}", "write train, val or test")
    return split.kind


def _refuse_joined_labels(labels: Labels) -> None:
    """Refuse labels such as `cat|dog` where `cat` is a label too.

    Raises:
        UserError: there is one.
    """
    known = dict.fromkeys(labels.labels)
    for separator in "|;,":
        for name in (name for name in known if separator in name):
            if any(part.strip() in known for part in name.split(separator)):
                place = labels.place(labels.labels.index(name))
                raise UserError(f"{place} has several labels: {shown(name)}", ONE_LABEL)
