"""The table of predictions: what is written is read again, and what cannot be one is refused."""

import csv
import io
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from accel_train.errors import UserError
from accel_train.metrics.predictions import Predictions, check_predictions_file, read_predictions, write_predictions

CLASSES = ("ape", "<img onerror=alert(1)>", "قرد", 'a "b", c')


def table(images: tuple[str, ...] = ("a.png", "b.png", "sub/c.png")) -> Predictions:
    return Predictions(
        classes=CLASSES,
        images=images,
        labels_N=np.array([0, 3, 2]),
        predicted_N=np.array([0, 1, 2]),
        confidences_N=np.array([1, 0.1, 1 / 3], dtype=np.float32),
        label_probabilities_N=np.array([1, 1e-20, 1 / 3], dtype=np.float32),
        label_ranks_N=np.array([1, 4, 1]),
    )


def assert_same(found: Predictions, expected: Predictions) -> None:
    for field in fields(Predictions):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name))


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", "P.PQ"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    names = ("with,comma.png", "two\nlines.png", 'quote".png')
    write_predictions(tmp_path / name, table(names))
    assert_same(read_predictions(tmp_path / name, CLASSES), table(names))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_equal_predictions_make_equal_bytes(tmp_path: Path, name: str) -> None:
    write_predictions(tmp_path / name, table())
    first = (tmp_path / name).read_bytes()
    write_predictions(tmp_path / name, replace(table(), confidences_N=table().confidences_N.copy()))
    assert (tmp_path / name).read_bytes() == first


def test_csv_has_names_and_the_shortest_digits_that_give_the_number_again(tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.csv", table())
    text = (tmp_path / "p.csv").read_text(encoding="utf-8")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["image", "label", "predicted", "confidence", "label_probability", "label_rank"],
        ["a.png", "ape", "ape", "1.0", "1.0", "1"],
        ["b.png", 'a "b", c', "<img onerror=alert(1)>", "0.1", "1e-20", "4"],
        ["sub/c.png", "قرد", "قرد", "0.33333334", "0.33333334", "1"],
    ]


def test_parquet_has_the_same_columns_for_any_program(tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.parquet", table())
    columns = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert columns.column_names == ["image", "label", "predicted", "confidence", "label_probability", "label_rank"]
    assert list(map(str, columns.schema.types)) == ["string", "string", "string", "float", "float", "int64"]
    assert columns["label_rank"].to_pylist() == [1, 4, 1]


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_names_that_are_not_utf_8_are_escaped(tmp_path: Path, name: str) -> None:
    write_predictions(tmp_path / name, table(("caf\udce9.png", "b.png", "c.png")))
    assert read_predictions(tmp_path / name, CLASSES).images[0] == "caf\\udce9.png"


def test_predictions_of_no_images_and_nan_are_read_again(tmp_path: Path) -> None:
    nothing = np.zeros(0, dtype=np.int64)
    empty = Predictions(CLASSES, (), nothing, nothing, np.float32(nothing), np.float32(nothing), nothing)
    write_predictions(tmp_path / "p.csv", empty)
    assert len(read_predictions(tmp_path / "p.csv", CLASSES)) == 0
    diverged = replace(table(), confidences_N=np.full(3, np.nan, dtype=np.float32))
    write_predictions(tmp_path / "p.csv", diverged)
    assert_same(read_predictions(tmp_path / "p.csv", CLASSES), diverged)


HEADER = "image,label,predicted,confidence,label_probability,label_rank\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "it has no column image"),
        ("image,label\na,ape\n", "it has no column predicted"),
        (HEADER + "a,ape,ape,1.0,1.0\n", "row 1 has 5 values instead of 6"),
        (HEADER + "a,ape,ape,1.0,1.0,1\nb,bee,ape,1.0,1.0,1\n", "row 2 has the label 'bee'"),
        (HEADER + "a,ape,ape,high,1.0,1\n", "row 1 has the confidence 'high'"),
        (HEADER + "a,ape,ape,1.0,1.0,1.5\n", "row 1 has the label_rank '1.5'"),
        (HEADER + "a,ape,ape,1.0,1.0,0\n", "a label_rank is not between 1 and 4"),
        (HEADER + "a,ape,قرد,1.0,1.0,1\n", "a label_rank contradicts the prediction"),
        (HEADER + 'a,"ape,ape,1.0,1.0,1\n', "line 2: unexpected end of data"),
    ],
)
def test_damaged_tables_are_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as raised:
        read_predictions(path, CLASSES)
    assert str(raised.value) == f"{path} is not a table of predictions for 4 classes: {problem}"
    assert "--predictions FILE" in raised.value.hint


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_files_of_other_kinds_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not a table of predictions for 4 classes"):
        read_predictions(tmp_path / name, CLASSES)
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match="No such file or directory"):
        read_predictions(tmp_path / name, CLASSES)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("p.txt", "the table is a CSV or Parquet file"),
        ("p", "the table is a CSV or Parquet file"),
        ("no/p.csv", "there is no folder"),
        ("folder.csv", "is a folder"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError) as raised:
        check_predictions_file(tmp_path / name, "--predictions")
    assert str(raised.value).startswith(f"--predictions {tmp_path / name}")
    assert problem in str(raised.value)


def test_parquet_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check_predictions_file(tmp_path / "p.csv", "--predictions")
    with pytest.raises(UserError) as raised:
        check_predictions_file(tmp_path / "p.parquet", "--predictions")
    assert str(raised.value) == "a Parquet file needs the package pyarrow, which is not installed"
    assert raised.value.hint == "pip install 'accel_train[parquet]', or give a .csv file"
