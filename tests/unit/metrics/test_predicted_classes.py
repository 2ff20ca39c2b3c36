"""Predicted classes are written as CSV and records, whatever the names."""

import csv
import io

import numpy as np

from accel_train.metrics.predicted_classes import PredictedClasses

TABLE = PredictedClasses(
    classes=("cat", 'a "dog", big', "b\udce9e"),
    images=("a.jpg", "new\nline.jpg", "lat\udce9.jpg", "bad.jpg"),
    best_NT=np.array([[0, 1], [1, 2], [2, 0], [0, 1]]),
    probabilities_NT=np.array([[0.9, 0.1], [0.5, 0.3], [0.4, 1e-9], [1, 0]], np.float32),
    problems={3: "it is a folder"},
    threshold=0.4,
)


def test_records_hold_the_classes_above_the_threshold_or_an_error() -> None:
    assert list(TABLE.records()) == [
        {"image": "a.jpg", "predictions": [{"class": "cat", "probability": 0.9}]},
        {"image": "new\nline.jpg", "predictions": [{"class": 'a "dog", big', "probability": 0.5}]},
        {"image": "lat\udce9.jpg", "predictions": [{"class": "b\udce9e", "probability": 0.4}]},
        {"image": "bad.jpg", "error": "it is a folder"},
    ]


def test_csv_has_a_row_a_picture_and_columns_for_each_class() -> None:
    header, *rows = csv.reader(io.StringIO(TABLE.csv_bytes().decode(), newline=""))
    assert header == ["image", "class", "probability", "class_2", "probability_2", "error"]
    assert rows == [
        ["a.jpg", "cat", "0.9", "", "", ""],
        ["new\nline.jpg", 'a "dog", big', "0.5", "", "", ""],
        ["lat\\udce9.jpg", "b\\udce9e", "0.4", "", "", ""],
        ["bad.jpg", "", "", "", "", "it is a folder"],
    ]


def test_probabilities_are_the_shortest_digits_that_give_them_again() -> None:
    values = np.random.default_rng(0).random((1000, 1), np.float32) ** 20
    count = len(values)
    table = PredictedClasses(("a",), list(map(str, range(count))), np.zeros((count, 1), np.int64), values, {})
    rows = csv.DictReader(io.StringIO(table.csv_bytes().decode(), newline=""))
    assert np.array_equal(np.array([float(row["probability"]) for row in rows], np.float32), values[:, 0])
    assert [np.float32(table.of(row)[0][1]) for row in range(count)] == values[:, 0].tolist()
