"""A user's data sets are read item by item with seeded generators; a user's own sources are used as they are."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, Source, View, pixel_statistics
from accel_train.data.sources.user import ItemSource
from accel_train.errors import UserError

VIEW = View(4, random_crop=False)
MODULE = """
import torch
from accel_train.data.sources import MemorySource

seen = {}

def sources(data_dir, seed):
    seen.update(data_dir=data_dir, seed=seed)
    images = torch.full((6, 3, 4, 4), 51, dtype=torch.uint8)
    return MemorySource(("x", "y"), images, torch.arange(6) % 2), MemorySource(("x", "y"), images[:2], torch.arange(2))

class Own:
    classes = ("x", "y")
    shape = (3, 4, 4)
    def __len__(self): return 6
    def read(self, ids, keys, view):
        return torch.full((len(ids), 3, view.size, view.size), 51, dtype=torch.uint8), torch.tensor(ids) % 2

def own(): return Own(), Own()

class Items:
    classes = ["x", "y", 3]
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, index): return torch.full((1, 4, 4), index, dtype=torch.uint8), index % 3

def items(): return Items(6), Items(3)
def one(): return Items(6)
def three(): return Items(6), Items(3), Items(3)
def bare_lists(): return [1, 2], [3]
"""


def opened(name: str) -> DataSet:
    return open_data(name, directory=None, val_fraction=None, seed=0, limit=None)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module in the current directory that makes data sets."""
    name = "data_of_mine"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return name


class Drawn:
    """A user's data set of three random numbers per image, one from each generator."""

    classes = ("a", "b")

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([[[random.random(), float(np.random.rand()), float(torch.rand(()))]]]), index % 2


def test_generators_are_seeded_with_each_items_key() -> None:
    source = ItemSource(("a", "b"), Drawn())
    drawn = source.read([0, 1, 2], [5, 6, 5], VIEW)[0]
    assert torch.equal(drawn[0], drawn[2])
    assert not (drawn[0] == drawn[1]).any()
    assert torch.equal(source.read([3], [6], VIEW)[0][0], drawn[1])


def test_evaluation_items_are_the_same_every_time() -> None:
    source: Source = ItemSource(("a", "b"), Drawn())
    images, labels = source.read([0, 1], None, VIEW)
    assert torch.equal(source.read([1, 0], None, VIEW)[0], images.flip(0))
    assert labels.tolist() == [0, 1]


def test_float_items_are_taken_as_normalised() -> None:
    assert pixel_statistics(ItemSource(("a", "b"), Drawn())) == ((0.0,), (1.0,))


def test_items_may_be_pictures() -> None:
    items = [(Image.new("RGB", (3, 2), (1, 2, 3)), 1), (Image.new("RGB", (3, 2)), torch.tensor(0))]
    images, labels = ItemSource(("a", "b"), items).read([0, 1], None, VIEW)
    assert (images.shape, images.dtype) == ((2, 3, 2, 3), torch.uint8)
    assert images[0, :, 1, 2].tolist() == [1, 2, 3]
    assert labels.tolist() == [1, 0]


def test_function_may_return_sources(module: str, tmp_path: Path) -> None:
    data = open_data(f"{module}:sources", directory=tmp_path, val_fraction=None, seed=7, limit=None)
    assert (data.kind, data.origin) == ("module", f"from {module}:sources")
    assert (len(data.train), len(data.val), data.train.classes) == (6, 2, ("x", "y"))
    assert data.mean == pytest.approx((0.2,) * 3)
    assert sys.modules[module].seen == {"data_dir": tmp_path, "seed": 7}


def test_users_own_source_needs_only_the_four_members(module: str) -> None:
    data = opened(f"{module}:own")
    assert type(data.train).__name__ == "Own"
    assert data.mean == pytest.approx((0.2,) * 3)
    assert data.train.read([0, 1], None, View(9, random_crop=False))[0].shape == (2, 3, 9, 9)


def test_function_may_return_map_style_data_sets(module: str) -> None:
    data = opened(f"{module}:items")
    assert isinstance(data.train, ItemSource)
    assert (len(data.train), len(data.val), data.train.classes) == (6, 3, ("x", "y", "3"))
    images, labels = data.train.read([5, 1], None, VIEW)
    assert (images[:, 0, 0, 0].tolist(), labels.tolist()) == ([5, 1], [2, 1])
    assert data.mean == pytest.approx((2.5 / 255,))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("one", "did not return a pair"),
        ("three", "did not return a pair"),
        ("bare_lists", "list has no classes or no length"),
        ("missing", "has no attribute 'missing'"),
    ],
)
def test_function_that_returns_no_data_is_rejected(module: str, function: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(f"{module}:{function}")
    assert caught.value.message.startswith(f"--data {module}:{function}")
    assert caught.value.message.endswith(message)
