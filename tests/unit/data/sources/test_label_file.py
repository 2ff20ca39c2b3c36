"""Files of labels: what is read, and the message about what cannot be."""

import os
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from accel_train.data.sources.label_file import ONE_LABEL, Labels, read_labels
from accel_train.errors import UserError


def csv(folder: Path, text: str | bytes, name: str = "labels.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(folder: Path, **columns: list[Any]) -> Path:
    path = folder / "labels.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    return path


def read(path: Path, column: str | None = None) -> tuple[list[str], list[str], list[str] | None]:
    found = read_labels(path, column)
    return list(found.files), list(found.labels), None if found.splits is None else list(found.splits)


def refusal(path: Path, column: str | None = None) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        read_labels(path, column)
    return caught.value.message.replace(f"{path.parent}/", ""), caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "file,label\na.jpg,cat\nb.jpg,dog\n",
        "file,label\r\na.jpg,cat\r\nb.jpg,dog",
        "\ufefffile,label\na.jpg,cat\n\nb.jpg,dog\n\n",
        'Label;File\ncat;a.jpg\n"dog";"b.jpg"\n',
        "filename\tclass\na.jpg\tcat\nb.jpg\tdog\n",
        "image, class_name\na.jpg, cat \nb.jpg, dog\n",
    ],
    ids=["plain", "Windows", "BOM and empty lines", "semicolons", "tabs", "spaces"],
)
def test_csv_of_any_program_is_read(tmp_path: Path, text: str) -> None:
    assert read(csv(tmp_path, text)) == (["a.jpg", "b.jpg"], ["cat", "dog"], None)


def test_columns_are_found_by_name_and_the_others_are_named(tmp_path: Path) -> None:
    path = csv(
        tmp_path, "age,label,path,Split,breed\n3,cat,a.jpg,train,x\n4,dog,b.jpg,Validation,y\n5,cat,c.jpg,TEST,x\n"
    )
    assert read(path) == (["a.jpg", "b.jpg", "c.jpg"], ["cat", "dog", "cat"], ["train", "val", "test"])
    assert read_labels(path, None).unused == ("age", "breed")
    nameless = read_labels(csv(tmp_path, ",file,label\n0,a.jpg,cat\n", "pandas.csv"), None)
    assert nameless.unused == ("one without a name",)
    assert read(path, "breed")[1] == ["x", "y", "x"]
    assert read_labels(path, "breed").unused == ("age", "label")
    assert read_labels(path, None).place(2) == f"{path}, line 4"


def test_parquet_reads_as_csv_does(tmp_path: Path) -> None:
    files = ["a.jpg", "b.jpg"]
    assert read(table(tmp_path, file=files, label=["cat", "dog"])) == (files, ["cat", "dog"], None)
    assert read(table(tmp_path, file=files, label=[7, 10], split=["train", "val"])) == (
        files,
        ["7", "10"],
        ["train", "val"],
    )
    assert read(table(tmp_path, file=files, label=[7.0, 10.0])) == (files, ["7", "10"], None)
    categories = pyarrow.array(["cat", "dog"]).dictionary_encode()
    path = tmp_path / "labels.pq"
    parquet.write_table(pyarrow.table({"file": files, "label": categories}), path)
    assert read(path) == (files, ["cat", "dog"], None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "",
            "labels.csv is empty",
            "begin it with the line file,label or file,label,split",
        ),
        (
            "a.jpg,cat\nb.jpg,dog\n",
            "labels.csv has no column file: it has the columns 'a.jpg', 'cat'",
            "begin it with the line file,label or file,label,split",
        ),
        (
            "file,breed\na.jpg,cat\n",
            "labels.csv has no column label: it has the columns 'file', 'breed'",
            "begin it with the line file,label or file,label,split, or give --label-column NAME",
        ),
        (
            "file,cat,dog\na.jpg,1,0\n",
            "labels.csv has a column for each class: the columns 'file', 'cat', 'dog'",
            ONE_LABEL,
        ),
        (
            "file,label,label\na.jpg,cat,dog\n",
            "labels.csv has 2 columns 'label'",
            "give each column a name of its own",
        ),
        ("file,label\n", "labels.csv lists no pictures", "write a line for each: its file and its label"),
        (
            "file,label\na.jpg,cat,dog\n",
            "labels.csv, line 2 has 3 values, the first line 2",
            "put values that hold a comma into double quotes",
        ),
        ('file,label\n"a.jpg,cat\n', "labels.csv, line 2: unexpected end of data", "write it as CSV: file,label"),
        (
            "file,label\n\na.jpg,\n",
            "labels.csv, line 3 has the label ''",
            "give the name of a class, or remove the picture",
        ),
        ("file,label\n,cat\n", "labels.csv, line 2 has the file ''", "give the path of a picture"),
        ("file,label,split\na.jpg,cat,fold1\n", "labels.csv, line 2 has the split 'fold1'", "write train, val or test"),
        ("file,label,split\na.jpg,cat,\n", "labels.csv, line 2 has the split ''", "write train, val or test"),
        ("file,label\na.jpg,cat\nb.jpg,cat|dog\n", "labels.csv, line 3 has several labels: 'cat|dog'", ONE_LABEL),
        ('file,label\na.jpg,"dog, cat"\nb.jpg,cat\n', "labels.csv, line 2 has several labels: 'dog, cat'", ONE_LABEL),
        (b"file,label\na.jpg,caf\xe9\n", "labels.csv is not UTF-8: byte 0xe9 in line 2", "save it as UTF-8"),
    ],
)
def test_csv_that_cannot_be_used_is_an_error_that_names_the_line(
    tmp_path: Path, text: str | bytes, message: str, hint: str
) -> None:
    assert refusal(csv(tmp_path, text)) == (message, hint)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [["cat", "dog"]]}, "labels.parquet, row 1 has several labels: ['cat', 'dog']"),
        ({"label": [None]}, "labels.parquet, row 1 has the label None"),
        ({"label": [1.5]}, "labels.parquet, row 1 has the label 1.5"),
        ({"label": [float("nan")]}, "labels.parquet, row 1 has the label nan"),
        ({"label": ["cat"], "split": [None]}, "labels.parquet, row 1 has the split None"),
        ({"label": ["cat"], "file": [3]}, "labels.parquet, row 1 has the file 3"),
    ],
)
def test_parquet_values_that_cannot_be_used_are_an_error(
    tmp_path: Path, columns: dict[str, list[Any]], message: str
) -> None:
    assert refusal(table(tmp_path, **{"file": ["a.jpg"], **columns}))[0] == message


def test_two_columns_of_one_name_in_parquet_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    parquet.write_table(pyarrow.table([["a.jpg"], ["cat"], ["dog"]], names=["file", "label", "label"]), path)
    assert refusal(path)[0] == "labels.parquet has 2 columns 'label'"


def test_label_with_a_separator_is_one_label_if_its_parts_are_none(tmp_path: Path) -> None:
    path = csv(tmp_path, 'file,label\na.jpg,"Salt, pepper"\nb.jpg,n/a|x\n')
    assert read(path)[1] == ["Salt, pepper", "n/a|x"]


def test_file_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "give a .csv or .parquet file that exists"
    assert refusal(tmp_path / "none.csv") == (
        f"--labels {tmp_path}/none.csv: No such file or directory".replace(f"{tmp_path}/", ""),
        hint,
    )
    assert refusal(tmp_path / "none.parquet")[1] == hint
    os.mkfifo(tmp_path / "fifo.parquet")
    assert refusal(tmp_path / "fifo.parquet")[0] == "--labels fifo.parquet: it is a FIFO"
    broken = csv(tmp_path, "file,label\na.jpg,cat\n", "broken.parquet")
    message, _ = refusal(broken)
    assert message.startswith("broken.parquet is not Parquet: Parquet magic bytes not found")
    assert refusal(csv(tmp_path, "file,label\na.jpg,cat\n"), "breed") == (
        "--label-column breed: labels.csv has the columns 'file', 'label'",
        "give the name of one of them",
    )
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert refusal(broken) == (
        "--labels broken.parquet: Parquet needs pyarrow",
        "run: pip install 'accel_train[parquet]'",
    )


def test_entries_know_their_place(tmp_path: Path) -> None:
    found: Labels = read_labels(table(tmp_path, file=["a.jpg", "b.jpg"], label=["x", "y"]), None)
    assert [found.place(n).rpartition("/")[2] for n in range(2)] == ["labels.parquet, row 1", "labels.parquet, row 2"]
