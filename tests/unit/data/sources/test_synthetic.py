"""Synthetic images have the sizes asked for, and classes that can be learned."""

import pytest
import torch

from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, View
from accel_train.errors import UserError

VIEW = View(8, random_crop=False)


def opened(name: str, seed: int = 0) -> DataSet:
    return open_data(name, directory=None, val_fraction=None, seed=seed, limit=None)


@pytest.mark.parametrize(
    ("name", "train", "val", "shape", "classes"),
    [
        ("synthetic", 1280, 256, (3, 32, 32), 10),
        ("synthetic:", 1280, 256, (3, 32, 32), 10),
        ("synthetic:100", 100, 20, (3, 32, 32), 10),
        ("synthetic:64,1,28", 64, 12, (1, 28, 32), 10),
        ("synthetic:20,2,8,6,4", 20, 4, (2, 8, 6), 4),
        ("synthetic:3,1,1,1,3", 3, 3, (1, 1, 1), 3),
    ],
)
def test_data_have_the_sizes_in_the_name(
    name: str, train: int, val: int, shape: tuple[int, int, int], classes: int
) -> None:
    data = opened(name)
    assert (len(data.train), len(data.val), data.train.shape, data.val.shape) == (train, val, shape, shape)
    assert data.train.classes == data.val.classes == tuple(map(str, range(classes)))
    images, labels = data.train.read(range(train), None, VIEW)
    assert images.dtype == torch.uint8
    assert labels.unique().tolist() == list(range(classes))
    assert data.val.read(range(val), None, VIEW)[1].unique().tolist() == list(range(classes))


def test_images_do_not_depend_on_the_seed_and_differ_between_splits() -> None:
    first, second = opened("synthetic:20,1,4,4,2"), opened("synthetic:20,1,4,4,2", seed=1)
    assert torch.equal(first.train.read(range(20), None, VIEW)[0], second.train.read(range(20), None, VIEW)[0])
    assert not torch.equal(first.train.read(range(4), None, VIEW)[0], first.val.read(range(4), None, VIEW)[0])


def test_each_class_has_its_own_brighter_rows() -> None:
    images, labels = opened("synthetic:400,1,8,8,4").train.read(range(400), None, VIEW)
    rows = torch.stack([images[labels == k].double().mean(dim=(0, 1, 3)) for k in range(4)])
    assert rows.argsort(dim=1, descending=True)[:, :2].sort(dim=1).values.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert (rows.max(dim=1).values - rows.min(dim=1).values).min() > 50


@pytest.mark.parametrize(
    "sizes", ["0", "-5", "many", "64,,3", "64,3,", "10,1,1,1,1", "10,1,1,1,11", "64,3,8,8,10,7", "1.5", "9"]
)
def test_invalid_sizes_are_rejected(sizes: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(f"synthetic:{sizes}")
    assert caught.value.message == f"--data synthetic:{sizes}: invalid sizes"
    assert caught.value.hint == "write synthetic:N,C,H,W,K, for example synthetic:1280,3,32,32,10"
