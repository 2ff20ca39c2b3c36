"""The confusion matrix of a run as a picture."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from accel_train.metrics.predictions import Predictions, write_predictions
from accel_train.trackers.pictures import draw_pictures


def make_run(folder: Path, classes: tuple[str, ...]) -> Path:
    """Write what pictures are drawn from: each class predicted once, the first one for every image."""
    count = len(classes)
    predicted = np.zeros(count, dtype=np.int64)
    ranks = np.where(np.arange(count) == 0, 1, 2)
    shares = np.full(count, 0.5, dtype=np.float32)
    names = tuple(f"{index}.png" for index in range(count))
    table = Predictions(classes, names, np.arange(count), predicted, shares, shares / 2, ranks)
    write_predictions(folder / "predictions.csv", table)
    (folder / "config.json").write_text(json.dumps({"classes": classes}))
    return folder


@pytest.mark.parametrize(
    "classes", [("a", "b"), tuple(map(str, range(100))), ("$x_1$", "line\nbreak", "<b>", "n" * 200)]
)
def test_every_number_and_name_of_classes_is_drawn(tmp_path: Path, classes: tuple[str, ...]) -> None:
    (path,) = draw_pictures(make_run(tmp_path, classes), tmp_path).values()
    assert path == tmp_path / "confusion_matrix.png"
    with Image.open(path) as picture:
        colours = picture.convert("RGB").getcolors(2**20)
    assert colours is not None
    assert len(colours) > 10


def test_nothing_is_drawn_without_predictions(tmp_path: Path) -> None:
    assert draw_pictures(tmp_path, tmp_path) == {}
