"""Two runs are compared by their predictions for the images that both have."""

from pathlib import Path

from helpers.histories import predicting_run as run

from accel_train.history.paired import compare_predictions
from accel_train.history.run import read_run

LABELS = {"a": 0, "b": 1, "c": 2, "d": 3}


def test_images_are_matched_by_name(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"a": 0, "b": 1, "c": 3, "d": 0}, LABELS)
    second = run(tmp_path / "b", {"d": 3, "c": 2, "b": 1, "a": 5}, LABELS)
    found = compare_predictions(first, second)
    assert found.test
    assert (found.test.both, found.test.only_first, found.test.only_second, found.test.neither) == (1, 1, 2, 0)
    assert found.notes == ()


def test_images_of_one_run_only_are_left_out(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"a": 0, "b": 1}, LABELS)
    second = run(tmp_path / "b", {"b": 1, "c": 2, "d": 3}, LABELS)
    found = compare_predictions(first, second)
    assert found.test
    assert found.test.images == 1
    assert found.notes == ("3 images of only one of the two runs left out",)


def test_other_images_or_labels_cannot_be_compared(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"a": 0, "b": 1}, LABELS)
    others = run(tmp_path / "b", {"c": 2}, LABELS)
    assert compare_predictions(first, others).test is None
    assert compare_predictions(first, others).notes == (
        f"{tmp_path}/a and {tmp_path}/b were validated on other images",
    )
    relabelled = run(tmp_path / "c", {"a": 0, "b": 1}, {"a": 0, "b": 7})
    found = compare_predictions(first, relabelled)
    assert found.test is None
    assert found.notes == (f"{tmp_path}/a and {tmp_path}/c have other labels for the same images",)


def test_missing_and_damaged_predictions_are_named(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"a": 0}, LABELS)
    second = run(tmp_path / "b", None, LABELS)
    command = f"accel_train evaluate {tmp_path}/b --predictions {tmp_path}/b/predictions.csv"
    assert compare_predictions(first, second).notes == (f"{tmp_path}/b has no predictions.csv; to write it: {command}",)
    (second.folder / "predictions.csv").write_text("image\n")
    (note,) = compare_predictions(first, second).notes
    assert note.startswith(f"{tmp_path}/b/predictions.csv is not a table of predictions for 10 classes: ")


def test_predictions_of_a_continued_run_are_older_than_its_weights(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"a": 0}, LABELS)
    run(tmp_path / "b", {"a": 0}, LABELS)
    (tmp_path / "b" / "model.safetensors").unlink()
    found = compare_predictions(first, read_run(tmp_path / "b"))
    assert found.test
    assert found.notes == (f"{tmp_path}/b was continued since its predictions.csv",)


def test_unfinished_run_has_no_predictions_to_write(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"a": 0}, LABELS)
    run(tmp_path / "b", None, LABELS)
    (tmp_path / "b" / "model.safetensors").unlink()
    (note,) = compare_predictions(first, read_run(tmp_path / "b")).notes
    resume = f"accel_train train --resume {tmp_path}/b"
    assert note == f"{tmp_path}/b has no predictions.csv: it has not finished; to continue it: {resume}"
