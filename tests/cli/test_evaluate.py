"""What evaluate tells of a run, and the table of its predictions."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import assert_refused, write_pictures
from helpers.runner import Runner
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

pytestmark = pytest.mark.xdist_group("evaluate")  # the tests share a run

OPTIONS = ("--model", "mlp", "--image-size", "8", "--batch-size", "4", "--epochs", "1", "--device", "cpu")
CLASSES = ["ape", "bee", "cow"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures of three classes of different sizes, and a run on them that wrote predictions."""
    at_top = Runner(tmp_path_factory.mktemp("evaluate"))
    write_pictures(at_top.folder / "photos/train", {"ape": 12, "bee": 6, "cow": 6}, size=8)
    write_pictures(at_top.folder / "photos/val", {"ape": 9, "bee": 3, "cow": 1}, size=8)
    (at_top.folder / "photos/val/ape/0.png").rename(at_top.folder / "photos/val/ape/=1, caf\udce9\n.png")
    ended = at_top("train", "--data", "photos", *OPTIONS, "--output", "run", "--report")
    assert ended.code == 0, ended.err
    return at_top.folder


@pytest.fixture
def place(run: Runner, trained: Path) -> Runner:
    """Return a copy of the pictures and the run."""
    shutil.copytree(trained, run.folder, dirs_exist_ok=True)
    return run


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_finished_run_has_the_predictions_of_its_weights(trained: Path) -> None:
    header, *rows = rows_of(trained / "run/predictions.csv")
    assert header == ["image", "label", "predicted", "confidence", "label_probability", "label_rank"]
    assert len(rows) == 13
    names = [row[0] for row in rows]
    assert names[9:] == ["bee/0.png", "bee/1.png", "bee/2.png", "cow/0.png"]
    assert "ape/=1, caf\\udce9\n.png" in names
    assert all(row[1] == row[0].partition("/")[0] for row in rows)
    assert all((row[5] == "1") == (row[1] == row[2]) == (row[3] == row[4]) for row in rows)


def test_predictions_have_the_same_bytes_on_any_number_of_processes(place: Runner) -> None:
    for ending, processes in (("csv", 1), ("csv", 2), ("csv", 3), ("parquet", 1), ("parquet", 2)):
        words = ("--predictions", f"{processes}.{ending}", "--device", "cpu")
        ended = place("evaluate", "run", *words, processes=processes)
        assert ended.code == 0, ended.err
        assert f"predictions    {processes}.{ending}\n" in ended.out
    expected = (place.folder / "run/predictions.csv").read_bytes()
    assert [(place.folder / f"{processes}.csv").read_bytes() for processes in (1, 2, 3)] == [expected] * 3
    assert (place.folder / "1.parquet").read_bytes() == (place.folder / "2.parquet").read_bytes()


def test_result_equals_scikit_learn_on_the_table(place: Runner) -> None:
    [found] = place("evaluate", "run", "--json", "--predictions", "p.csv").records
    rows = rows_of(place.folder / "p.csv")[1:]
    labels, predicted = ([row[column] for row in rows] for column in (1, 2))
    matrix = confusion_matrix(labels, predicted, labels=CLASSES)
    assert found["confusion"] == matrix.tolist()
    assert found["accuracy"] == matrix.trace() / 13
    assert [one["name"] for one in found["per_class"]] == CLASSES
    scores = precision_recall_fscore_support(labels, predicted, labels=CLASSES, zero_division=np.nan)
    for name, expected in zip(("precision", "recall", "f1", "images"), scores, strict=True):
        given = [one[name] for one in found["per_class"]]
        assert given == [None if np.isnan(value) else pytest.approx(value, abs=1e-9) for value in expected]
    assert found["mean_confidence"] == pytest.approx(np.mean([float(row[3]) for row in rows]), abs=1e-6)
    assert sum(each["images"] for each in found["reliability"]) == 13
    low, high = found["accuracy_interval"]
    assert low < found["accuracy"] < high
    assert found["top5_interval"] == [pytest.approx(0.7719, abs=1e-4), 1.0]  # 13 of 13


def test_scores_of_classes_are_printed_when_asked_for(place: Runner) -> None:
    short, long = place("evaluate", "run").out, place("evaluate", "run", "--per-class").out
    assert [line[:15].strip() for line in short.splitlines()[1:3]] == ["95 % interval", "calibration"]
    assert long.startswith(short)
    header, *table = long.removeprefix(short).strip().splitlines()
    assert header.split() == ["class", "images", "precision", "recall", "F1"]
    assert [line.split()[:2] for line in table] == [["ape", "9"], ["bee", "3"], ["cow", "1"]]


@pytest.mark.parametrize(
    ("file", "problem", "hint"),
    [
        ("p.txt", "--predictions p.txt: the table is a CSV or Parquet file", ".csv or .parquet"),
        ("no/p.csv", "--predictions no/p.csv: there is no folder no", "give another --predictions"),
    ],
)
def test_table_that_cannot_be_written_is_refused_before_the_work(
    place: Runner, file: str, problem: str, hint: str
) -> None:
    shutil.rmtree(place.folder / "photos")  # would be refused later
    ended = place("evaluate", "run", "--predictions", file)
    assert ended.code == 2
    assert_refused(ended, problem, hint)


def test_run_without_report_has_no_predictions_and_loses_those_of_earlier_weights(place: Runner) -> None:
    words = ("--data", "photos", *OPTIONS, "--output", "run", "--no-report")
    ended = place("train", *words, "--resume", "run", "--epochs", "2")
    assert ended.code == 0, ended.err
    assert not (place.folder / "run/predictions.csv").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("run", "--weights", "best"), "not for its best weights"),
        (("other",), "not for those of other"),
    ],
)
def test_predictions_of_a_run_are_of_its_own_last_weights(place: Runner, words: tuple[str, ...], problem: str) -> None:
    shutil.copytree(place.folder / "run", place.folder / "other")
    ended = place("evaluate", *words, "--predictions", "run/predictions.csv")
    assert ended.code == 2
    assert_refused(ended, problem, "give another --predictions")
