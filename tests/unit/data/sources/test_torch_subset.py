"""A selection of a user's data set has its classes, labels and images, at the indices."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, random_split

from accel_train.data.contents import split_contents
from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, View
from accel_train.data.sources.labels import labels_of
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.user import ItemSource
from accel_train.errors import UserError

VIEW = View(4, random_crop=False)


class Items(Dataset[tuple[Tensor, int]]):
    """Twelve images; each is filled with its number, which decides the label."""

    classes = ("x", "y", "z")
    fingerprint = "v1"

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((1, 4, 4), index, dtype=torch.uint8), index % 3


class Named(Items):
    """Items that tell their labels in some form."""

    def __init__(self, name: str, labels: Any, **more: Any) -> None:
        self.__dict__ |= {name: labels, **more}


MEMORY = MemorySource(("x", "y"), torch.arange(12, dtype=torch.uint8).view(12, 1, 1, 1), torch.arange(12) % 2)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that opens two data sets as those of a user's function."""

    def open_them(train: Any, val: Any) -> DataSet:
        module = ModuleType("my_subsets")
        module.data = lambda: (train, val)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "my_subsets", module)
        return open_data("my_subsets:data", directory=None, val_fraction=None, seed=0, limit=None)

    return open_them


def numbers(source: Any) -> tuple[list[int], list[int]]:
    """Return the number and the label of each image."""
    images, labels = source.read(range(len(source)), None, VIEW)
    return images[:, 0, 0, 0].tolist(), labels.tolist()


def test_random_split_has_the_classes_and_images_of_the_whole(opened: Any) -> None:
    train, val = random_split(Items(), [0.75, 0.25], torch.Generator().manual_seed(0))
    data = opened(train, val)
    assert (data.train.classes, data.val.classes) == (Items.classes, Items.classes)
    assert (len(data.train), len(data.val)) == (9, 3)
    assert numbers(data.train) == (list(train.indices), [n % 3 for n in train.indices])
    assert sorted(numbers(data.train)[0] + numbers(data.val)[0]) == list(range(12))


def test_nested_selection_is_that_of_its_indices(opened: Any) -> None:
    nested = Subset(Subset(Items(), [11, 9, 7, 5]), [3, 0])
    data = opened(nested, Subset(Items(), [1]))
    assert data.train.classes == Items.classes
    assert numbers(data.train) == ([5, 11], [2, 2])


@pytest.mark.parametrize("name", ["labels", "targets"])
@pytest.mark.parametrize("make", [list, np.array, torch.tensor, tuple], ids=["list", "array", "tensor", "tuple"])
def test_labels_are_those_at_the_indices(opened: Any, name: str, make: Any) -> None:
    whole = Named(name, make([n % 3 for n in range(12)]))
    data = opened(Subset(Subset(whole, [11, 9, 8, 5]), [2, 0]), Subset(whole, torch.tensor([4])))
    labels, of_val = labels_of(data.train), labels_of(data.val)
    assert labels is not None
    assert of_val is not None
    assert (labels.tolist(), of_val.tolist()) == ([2, 2], [1])
    assert numbers(data.train)[1] == [2, 2]


def test_labels_that_may_change_when_they_are_read_are_not_taken(opened: Any) -> None:
    whole = Named("targets", [0] * 12, target_transform=str)
    assert labels_of(opened(Subset(whole, [1, 2]), Items()).train) is None
    assert labels_of(opened(Subset(Items(), [1, 2]), Items()).train) is None


@pytest.mark.parametrize("labels", [[0, 1], torch.tensor([0, 1]), {0: 1}, len])
def test_labels_that_cannot_be_selected_are_an_error(opened: Any, labels: Any) -> None:
    train = opened(Subset(Named("labels", labels), [1, 2]), Items()).train
    with pytest.raises(UserError, match=r"^the labels of the data set that a Subset selects from cannot be read: "):
        labels_of(train)


def test_attributes_of_the_selection_itself_win(opened: Any) -> None:
    train = Subset(Items(), [1, 2])
    train.classes, train.labels, train.fingerprint = ("x", "y", "other"), [1, 2], "mine"  # type: ignore[attr-defined]
    data = opened(train, Named("classes", ("x", "y", "other")))
    assert data.train.classes == ("x", "y", "other")
    assert split_contents(data.train).fingerprint == "mine"


def test_fingerprint_tells_the_selection(opened: Any) -> None:
    def fingerprint(indices: Any) -> str | None:
        return split_contents(opened(Subset(Items(), indices), Items()).train).fingerprint

    assert fingerprint([1, 2]) == fingerprint((1, 2))
    assert len({fingerprint([1, 2]), fingerprint([2, 1]), fingerprint([1, 3]), "v1"}) == 4


def test_selection_of_a_memory_source_is_one(opened: Any) -> None:
    data = opened(Subset(Subset(MEMORY, [11, 9, 8, 5]), [2, 0]), Subset(MEMORY, range(3)))  # type: ignore[arg-type]
    assert isinstance(data.train, MemorySource)
    assert numbers(data.train) == ([8, 11], [0, 1])
    assert (data.train.counts, data.val.counts) == ((1, 1), (2, 1))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (Subset(Items(), [0, 12]), "is a Subset with the index 12 of 12 images"),
        (Subset(Subset(Items(), [5]), [1]), "is a Subset with the index 1 of 1 images"),
        (Subset(Items(), []), "has no images"),
        (Subset(Items(), [0.5]), "is a Subset that cannot be read: its indices are float64"),  # type: ignore[list-item]
        (Subset([(torch.zeros(1, 2, 2), 0)], [0]), "is a Subset without classes or without length"),  # type: ignore[arg-type]
    ],
)
def test_selection_that_cannot_be_right_is_refused(opened: Any, train: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(train, Items())
    assert caught.value.message == f"--data my_subsets:data: training data {message}"


def test_transform_of_a_subset_of_ones_own_is_used(opened: Any) -> None:
    class Brighter(Subset[tuple[Tensor, int]]):
        def __getitem__(self, index: Any) -> tuple[Tensor, int]:
            image, label = super().__getitem__(index)
            return image + 100, label

        def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, int]]:
            return [self[index] for index in indices]

    data = opened(Brighter(Items(), [2, 4]), Items())
    assert isinstance(data.train, ItemSource)
    assert numbers(data.train) == ([102, 104], [2, 1])
