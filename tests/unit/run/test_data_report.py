"""Lines about the images of all splits."""

import numpy as np
import pytest
import torch

from accel_train.data.examine import Examined
from accel_train.data.sources.base import Subset
from accel_train.data.sources.memory import MemorySource
from accel_train.run import data_report
from accel_train.run.data_report import class_lines, examine_all, report_lines


def memory(*labels: int) -> MemorySource:
    images_NCHW = torch.arange(len(labels), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 3).contiguous()
    return MemorySource(("cat", "dog"), images_NCHW, torch.tensor(labels))


def test_classes_are_counted_in_each_split_also_of_a_part() -> None:
    splits = {"train": Subset(memory(0, 1, 1, 1), np.array([0, 1])), "val": memory(1, 1)}
    assert list(class_lines(splits)) == ["class  train  val", "cat        1    0", "dog        1    2"]


def test_all_splits_are_examined_and_counted() -> None:
    done: list[int] = []
    found = examine_all({"train": memory(*[0] * 20), "val": memory(0, 1)}, 10**6, 0, done.append)
    assert {split: len(images) for split, images in found.items()} == {"train": 20, "val": 2}
    assert done == [16, 20, 22]


def test_report_names_the_first_images_of_two_splits_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_report, "can_compare_likeness", lambda: False)
    splits = {"train": memory(*[0] * 7), "val": Subset(memory(*[0] * 9), np.array([8, 2, 3, 4, 5, 6]))}
    train = [Examined(bytes([n]), None, 2, 3, (n / 10,), (n * n / 100,)) for n in (0, 2, 5, 6, 7, 8, 9)]
    val = [Examined(bytes([n]), None, 2, 3, (0.5,), (0.25,)) for n in (8, 2, 6, 7, 5)] + [Examined(problem="torn")]
    lines = list(report_lines(splits, {"train": train, "val": val}))
    assert lines == [
        "width × height: 3 × 2 to 3 × 2 pixels, median 3 × 2",
        "training pixels: mean 0.529, std 0.301",
        "5 images with the bytes of one of another split:",
        "  val/8 and train/5",
        "  val/2 and train/1",
        "  val/3 and train/3",
        "  val/4 and train/4",
        "  val/5 and train/2",
        "images that look alike are not searched for: pip install 'accel_train[preview]'",
        "1 image of 13 cannot be read:",
        "  val/6: torn",
    ]
    more = list(report_lines(splits, {"train": train, "val": [*val[:5], val[0]]}))
    assert more[8] == "  and 1 more"


def test_images_of_no_colours_have_no_line_about_them() -> None:
    floats = [Examined(b"a", None, 2, 3)]
    lines = list(report_lines({"train": memory(0), "val": memory(0)}, {"train": floats, "val": floats}))
    assert not any(line.startswith("training pixels") for line in lines)
    assert lines[-1] == "0 images of 2 cannot be read"
