"""Labels are read without images, from any source."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from accel_train.data.packing.pack import begin, pack
from accel_train.data.packing.source import open_packed
from accel_train.data.sources.base import Request, Source, Subset, View
from accel_train.data.sources.folder import open_folder
from accel_train.data.sources.labels import LabelsOnly, labels_of
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.user import ItemSource
from accel_train.errors import UserError

IDS, VIEW = np.array([3, 0, 3]), View(size=4, random_crop=False)


def in_memory(folder: Path) -> Source:
    return MemorySource(("a", "b"), torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 0, 1, 1]))


def folder_of_pictures(folder: Path) -> Source:
    for split in ("train", "val"):
        for number, name in enumerate("abab"):
            (folder / split / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(folder / split / name / f"{number}.png")
    return open_folder(request(folder)).train


def packed(folder: Path) -> Source:
    folder_of_pictures(folder / "pictures")
    list(pack(begin(folder / "pictures", folder / "packed", 8), 1))
    return open_packed(request(folder / "packed")).train


def subset(folder: Path) -> Source:
    return Subset(in_memory(folder), np.array([1, 2, 0, 3]))


def request(folder: Path) -> Request:
    return Request(str(folder), None, None, 0)


@pytest.mark.parametrize("make", [in_memory, folder_of_pictures, packed, subset])
def test_labels_are_those_of_the_source_and_no_image_is_read(
    make: Callable[[Path], Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path)
    _, expected_B = source.read(IDS, None, VIEW)

    def unread(*_: Any) -> None:
        raise AssertionError("an image was read")

    for kind in {type(source), MemorySource}:
        monkeypatch.setattr(kind, "read", unread)
    found = LabelsOnly(source)
    images, labels_B = found.read(IDS, None, VIEW)
    assert torch.equal(labels_B, expected_B)
    assert (len(images), images.numel()) == (3, 0)
    assert (found.classes, found.shape, len(found)) == (source.classes, source.shape, 4)


def test_images_of_a_users_source_are_dropped() -> None:
    class Users:
        classes, shape = ("a", "b"), (1, 2, 2)

        def __len__(self) -> int:
            return 4

        def read(self, ids: Any, keys: Any, view: View) -> Any:
            return torch.ones(len(ids), 1, 2, 2), torch.as_tensor(ids) % 2

    images, labels_B = LabelsOnly(Users()).read(IDS, None, VIEW)
    assert labels_B.tolist() == [1, 0, 1]
    assert images.numel() == 0


@pytest.mark.parametrize("make", [in_memory, folder_of_pictures, packed, subset])
def test_labels_of_all_images_are_those_that_are_read(make: Callable[[Path], Source], tmp_path: Path) -> None:
    source = make(tmp_path)
    found = labels_of(source)
    assert found is not None
    assert found.dtype == np.int64
    assert found.tolist() == source.read(np.arange(len(source)), None, VIEW)[1].tolist()


class Pairs:
    """A user's data set of three pairs, with the attributes given."""

    classes = ("a", "b")

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(1, 2, 2), index % 2


@pytest.mark.parametrize(
    ("attributes", "labels"),
    [
        ({}, None),
        ({"labels": [0, 1, 0]}, [0, 1, 0]),
        ({"labels": np.array([0, 1, 0], dtype=np.uint8)}, [0, 1, 0]),
        ({"targets": torch.tensor([0, 1, 0])}, [0, 1, 0]),
        ({"targets": [0, 1, 0], "target_transform": None}, [0, 1, 0]),
        ({"targets": [7, 8, 7], "target_transform": int}, None),
    ],
)
def test_labels_of_a_users_data_set_are_those_that_it_gives(attributes: Any, labels: list[int] | None) -> None:
    found = labels_of(ItemSource(Pairs.classes, Pairs(**attributes)))
    assert (None if found is None else found.tolist()) == labels


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([0, 1], r"the labels of 3 images are torch.int64 of shape \(2,\), not int64"),
        ([0, 1, 2], "image 2 has the label 2, but labels go from 0 to 1"),
        ([0, -1, 1], "image 1 has the label -1"),
        (["a", "b", "a"], "the labels are <U1, not whole numbers"),
        ([0.0, 1.0, 0.0], "the labels are float64, not whole numbers"),
    ],
)
def test_labels_that_cannot_be_right_are_refused(labels: list[Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        labels_of(ItemSource(Pairs.classes, Pairs(labels=labels)))
