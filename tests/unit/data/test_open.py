"""A data set's name finds it, and what does not fit is refused with a way out."""

import sys
from pathlib import Path

import pytest
import torch

from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, ItemSource
from accel_train.errors import UserError

MODULE = """
import torch
from accel_train.data.sources.base import MemorySource

seen = {}

def sources(data_dir, seed):
    seen.update(data_dir=data_dir, seed=seed)
    images = torch.full((6, 3, 4, 4), 51, dtype=torch.uint8)
    return MemorySource(("x", "y"), images, torch.arange(6) % 2), MemorySource(("x", "y"), images[:2], torch.arange(2))

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


def opened(name: str, *, val_fraction: float | None = None, limit: int | None = None, seed: int = 0) -> DataSet:
    return open_data(name, directory=None, val_fraction=val_fraction, seed=seed, limit=limit)


def refusal(name: str, val_fraction: float | None = None) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        opened(name, val_fraction=val_fraction)
    return caught.value.message, caught.value.hint


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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cifr10", "did you mean cifar10?"),
        ("fashion_mnist", "did you mean fashion-mnist?"),
        ("sythetic", "did you mean synthetic?"),
        (
            "/no/where",
            "choose digits, fashion-mnist, mnist, kmnist, cifar10, cifar100, svhn, synthetic, a folder or "
            "my.module:function",
        ),
    ],
)
def test_an_unknown_name_gets_a_near_one_or_all(name: str, hint: str) -> None:
    assert refusal(name) == (f"--data {name}: neither a known data set nor a folder", hint)


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
def test_synthetic_data_have_the_sizes_asked_for(
    name: str, train: int, val: int, shape: tuple[int, int, int], classes: int
) -> None:
    data = opened(name)
    assert (len(data.train), len(data.val), data.train.shape, data.val.shape) == (train, val, shape, shape)
    assert data.train.classes == data.val.classes == tuple(map(str, range(classes)))
    images, labels = data.train.read(range(train), None)
    assert images.dtype == torch.uint8
    assert labels.unique().tolist() == list(range(classes))
    assert data.val.read(range(val), None)[1].unique().tolist() == list(range(classes))


def test_synthetic_data_are_the_same_noise_for_every_seed_and_differ_between_splits() -> None:
    first, second = opened("synthetic:20,1,4,4,2"), opened("synthetic:20,1,4,4,2", seed=1)
    assert torch.equal(first.train.read(range(20), None)[0], second.train.read(range(20), None)[0])
    assert not torch.equal(first.train.read(range(4), None)[0], first.val.read(range(4), None)[0])


def test_each_synthetic_class_is_brighter_in_a_place_of_its_own() -> None:
    images, labels = opened("synthetic:400,1,8,8,4").train.read(range(400), None)
    rows = torch.stack([images[labels == k].double().mean(dim=(0, 1, 3)) for k in range(4)])
    assert rows.argsort(dim=1, descending=True)[:, :2].sort(dim=1).values.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert (rows.max(dim=1).values - rows.min(dim=1).values).min() > 50


@pytest.mark.parametrize(
    "sizes", ["0", "-5", "many", "64,,3", "64,3,", "10,1,1,1,1", "10,1,1,1,11", "64,3,8,8,10,7", "1.5", "9"]
)
def test_synthetic_sizes_that_are_none_are_refused(sizes: str) -> None:
    message, hint = refusal(f"synthetic:{sizes}")
    assert message == f"--data synthetic:{sizes} is no size"
    assert hint == "write synthetic:N,C,H,W,K, as in synthetic:1280,3,32,32,10"


@pytest.mark.parametrize("name", ["digits", "synthetic", "data_of_mine:items"])
def test_a_fraction_without_effect_is_refused(name: str, module: str) -> None:
    message, _ = refusal(name, val_fraction=0.2)
    assert message == f"--val-fraction has no effect on {name}, which has its own validation images"


def test_a_limit_cuts_both_splits() -> None:
    data = opened("synthetic:100,1,4,4,10", limit=15)
    assert (len(data.train), len(data.val)) == (15, 15)
    assert data.train.read([1], None)[1].tolist() == [6]  # 100 / 15


def test_a_function_may_return_sources(module: str, tmp_path: Path) -> None:
    data = open_data(f"{module}:sources", directory=tmp_path, val_fraction=None, seed=7, limit=None)
    assert (data.kind, data.place) == ("module", f"from {module}:sources")
    assert (len(data.train), len(data.val), data.train.classes) == (6, 2, ("x", "y"))
    assert data.mean == pytest.approx((0.2,) * 3)
    assert sys.modules[module].seen == {"data_dir": tmp_path, "seed": 7}


def test_a_function_may_return_plain_map_style_data_sets(module: str) -> None:
    data = opened(f"{module}:items")
    assert isinstance(data.train, ItemSource)
    assert (len(data.train), len(data.val), data.train.classes) == (6, 3, ("x", "y", "3"))
    images, labels = data.train.read([5, 1], None)
    assert (images[:, 0, 0, 0].tolist(), labels.tolist()) == ([5, 1], [2, 1])
    assert data.mean == pytest.approx((2.5 / 255,))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("one", "returned no pair"),
        ("three", "returned no pair"),
        ("bare_lists", "list lacks classes or a length"),
        ("missing", "has no attribute 'missing'"),
    ],
)
def test_a_function_that_returns_no_data_is_refused(module: str, function: str, message: str) -> None:
    found, _ = refusal(f"{module}:{function}")
    assert found.startswith(f"--data {module}:{function}")
    assert found.endswith(message)


def test_a_folder_is_opened_as_one(tmp_path: Path) -> None:
    assert refusal(str(tmp_path))[0] == f"{tmp_path} holds no class folders"
