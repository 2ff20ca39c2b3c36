"""A user's data sets are read item by item with seeded generators; a user's own sources are used as they are."""

import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from accel_train.data.contents import SplitContents, split_contents
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
def number(): return 3
def as_list(): return [Items(6), Items(3)]
def four(): return Items(6), Items(3), Items(3), Items(3)
def made(images, labels, classes=("x", "y")): return MemorySource(classes, images, labels)
def labelled(*labels): return made(torch.zeros(len(labels), 1, 2, 2), torch.tensor(labels))
GOOD = labelled(0, 1)
class Named(Items):
    fingerprint, counts = "v2", [2, 2, 2]
class Labelled(Items):
    def __init__(self, label): super().__init__(2); self.label = label
    def __getitem__(self, index): return torch.zeros(1, 2, 2), self.label

def named(): return Named(6), Named(3)
class Marked(Items):
    read, shape = 0, None
def marked(): return Marked(6), Marked(3)
class Unreadable:
    classes = ("x", "y")
    def __len__(self): return 1
def unreadable(): return Unreadable(), Unreadable()
def other_classes(): return Items(6), GOOD
def empty(): return GOOD, made(torch.zeros(0, 1, 2, 2), torch.zeros(0, dtype=torch.int64))
def twice(): return GOOD, made(torch.zeros(2, 1, 2, 2), torch.arange(2), ("x", "x"))
def one_class(): return GOOD, made(torch.zeros(2, 1, 2, 2), torch.arange(2), ("x",))
def too_large(): return GOOD, labelled(0, 2)
def negative(): return labelled(-1, 0), GOOD
def floats(): return labelled(0.0, 1.0), GOOD
def too_few(): return made(torch.zeros(3, 1, 2, 2), torch.arange(2)), GOOD
def no_channels(): return made(torch.zeros(2, 2, 2), torch.arange(2)), GOOD
def item_label(): return Labelled(3), Labelled(0)
def item_fraction(): return Labelled(0.9), Labelled(0)
def item_one_hot(): return Labelled(torch.tensor([0., 1.])), Labelled(0)

class Given(Items):
    def __init__(self, make, **changed): super().__init__(2); self.make = make; self.__dict__ |= changed
    def __getitem__(self, index): return self.make(index)

def given(make, **changed): return Given(make, **changed), Items(3)
def boom(*_): raise RuntimeError("boom")
def array(): return given(lambda index: (torch.zeros(4, 4, 3).numpy(), 0))
def grey(): return given(lambda index: (torch.zeros(4, 4), 0))
def sizes(): return given(lambda index: (torch.zeros(1, 4 + index, 4 + index, dtype=torch.uint8), 0))
def no_pair(): return given(lambda index: (1, 2, 3))
def broken_item(): return given(boom)
def broken(): boom()
def no_classes(): return given(boom, classes=None)
def number_of_classes(): return given(boom, classes=3)
def text_of_classes(): return given(boom, classes="abc")
def item_text(): return Labelled("cat"), Labelled(0)
def bare_lists(): return [1, 2], [3]

def set_of_classes(): return given(boom, classes={"a"})
def generator_of_classes(): return given(boom, classes=(name for name in "ab"))
def unnamed_class(): return given(boom, classes=["", "b"])
def other_order(): return GOOD, made(torch.zeros(2, 1, 2, 2), torch.arange(2), ("y", "x"))
def a_class(): return Items, Items
def negative_length(): return Items(-3), Items(3)
def half_length(): return Items(2.5), Items(3)
def image(tensor): return given(lambda index: (tensor, 0))
def bools(): return image(torch.zeros(1, 4, 4, dtype=torch.bool))
def complex_numbers(): return image(torch.zeros(1, 4, 4, dtype=torch.complex64))
def sparse(): return image(torch.zeros(1, 4, 4).to_sparse())
def without_data(): return image(torch.zeros(1, 4, 4, device="meta"))
def without_pixels(): return image(torch.zeros(1, 0, 4))
def channels_last(): return image(torch.zeros(8, 9, 3, dtype=torch.uint8))
def other_channels(): return Items(3), image(torch.zeros(3, 4, 4, dtype=torch.uint8))[0]
def other_type(): return Items(3), image(torch.zeros(1, 4, 4))[0]
def validation_label(): return Items(3), given(lambda index: (torch.zeros(1, 4, 4, dtype=torch.uint8), 3))[0]

class Read(Own):
    def __init__(self, change): self.change = change
    def read(self, ids, keys, view): return self.change(*super().read(ids, keys, view))

def no_shape(): data = Own(); data.shape = (8, 8); return data, Own()
def reads_nothing(): return Read(lambda images, labels: None), Own()
def reads_three(): return Read(lambda images, labels: (images, labels, 0)), Own()
def reads_arrays(): return Read(lambda images, labels: (images.numpy(), labels)), Own()
def reads_too_few(): return Read(lambda images, labels: (images[:1], labels)), Own()
def reads_lists(): return Read(lambda images, labels: (images, labels.tolist())), Own()
def memory_of_arrays(): return made(torch.zeros(2, 1, 2, 2).numpy(), torch.arange(2)), GOOD
def memory_of_lists(): return made(torch.zeros(2, 1, 2, 2), [0, 1]), GOOD
def memory_of_bools(): return made(torch.zeros(2, 1, 2, 2, dtype=torch.bool), torch.arange(2)), GOOD
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
    monkeypatch.setitem(sys.modules, name, None)  # what it was is put back
    del sys.modules[name]
    return name


class Counted(list[Any]):
    """Six items that tell their counts."""

    def __init__(self, counts: Any) -> None:
        super().__init__(range(6))
        self.counts = counts


class Drawn:
    """A user's data set of three random numbers per image, one from each generator."""

    classes = ("a", "b")

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([[[random.random(), float(np.random.rand()), float(torch.rand(()))]]]), index % 2


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("other_classes", "training and validation data have different classes: 3 and 2"),
        ("empty", "validation data has no images"),
        ("twice", "validation data has the classes x, x: 'x' is named twice"),
        ("one_class", "validation data has the classes x"),
        ("too_large", "validation data: image 1 has the label 2, but labels go from 0 to 1"),
        ("negative", "training data: image 0 has the label -1, but labels go from 0 to 1"),
        ("floats", "training data: the labels of 2 images are torch.float32 of shape (2,), not int64"),
        ("too_few", "training data has images of shape 3 × 1 × 2 × 2 and 2 labels"),
        ("no_channels", "training data has images of shape 2 × 2 × 2 and 2 labels"),
        ("item_label", "training data: image 0 has the label 3, but labels go from 0 to 2"),
        ("item_text", "training data: image 0 has the label 'cat', which is no whole number"),
        ("item_fraction", "training data: image 0 has the label 0.9, which is no whole number"),
        ("item_one_hot", "training data: image 0 has the label tensor([0., 1.]), which is no whole number"),
        ("array", "training data: image 0 is a ndarray"),
        ("grey", "training data: image 0 is a tensor of (4, 4)"),
        ("sizes", "training data: image 1 is torch.uint8 of 1 × 5 × 5, image 0 is torch.uint8 of 1 × 4 × 4"),
        ("no_pair", "training data: image 0: ValueError: too many values to unpack (expected 2)"),
        ("broken_item", "training data: image 0: RuntimeError: boom"),
        ("broken", "RuntimeError: boom"),
        ("no_classes", "training data has the classes None"),
        ("number_of_classes", "training data has the classes 3"),
        ("text_of_classes", "training data has the classes 'abc'"),
        ("set_of_classes", "training data has the classes {'a'}: a set has another order in each process"),
        ("generator_of_classes", "training data has the classes a generator"),
        ("unnamed_class", "training data has the classes , b"),
        ("other_order", "training and validation data have different classes: class 0 is 'x' and 'y'"),
        ("a_class", "training data has no length: the class Items, not an object of it"),
        ("negative_length", "training data has no length: __len__() should return >= 0"),
        ("half_length", "training data has no length: 'float' object cannot be interpreted as an integer"),
        ("bools", "training data: image 0 is torch.bool of 1 × 4 × 4"),
        ("complex_numbers", "training data: image 0 is torch.complex64 of 1 × 4 × 4"),
        ("sparse", "training data: image 0 is torch.float32 of 1 × 4 × 4"),
        ("without_data", "training data: image 0 is torch.float32 of 1 × 4 × 4"),
        ("without_pixels", "training data: image 0 is torch.float32 of 1 × 0 × 4"),
        ("channels_last", "training data: image 0 is torch.uint8 of 8 × 9 × 3"),
        (
            "other_channels",
            "the training images are torch.uint8 of 1 channel, the validation data torch.uint8 of 3 channels",
        ),
        (
            "other_type",
            "the training images are torch.uint8 of 1 channel, the validation data torch.float32 of 1 channel",
        ),
        ("validation_label", "validation data: image 0 has the label 3, but labels go from 0 to 2"),
        ("no_shape", "training data has the shape (8, 8)"),
        ("reads_nothing", "training data: `read` returned a NoneType"),
        ("reads_three", "training data: `read` returned 3 values"),
        ("reads_arrays", "training data: the images of `read` are a ndarray"),
        ("reads_too_few", "training data: `read` returned images of 1 × 3 × 4 × 4 for 6 ids of images of 3 × 4 × 4"),
        ("reads_lists", "training data: the labels of 6 images are a list, not a tensor of int64"),
        ("memory_of_arrays", "training data has images that are a ndarray"),
        ("memory_of_lists", "training data has labels that are a list"),
        ("memory_of_bools", "training data has images that are torch.bool of 2 × 1 × 2 × 2"),
    ],
)
def test_odd_labels_and_classes_are_an_error_before_training(module: str, function: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(f"{module}:{function}")
    assert caught.value.message.removeprefix(f"--data {module}:{function}: ") == message


def test_items_may_tell_their_counts_and_fingerprint(module: str) -> None:
    named, plain = opened(f"{module}:named"), opened(f"{module}:items")
    assert split_contents(named.train) == SplitContents(6, (2, 2, 2), "v2")
    assert split_contents(plain.val) == SplitContents(3, None, None)


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


@pytest.mark.parametrize(
    ("mode", "pixel", "expected"),
    [
        ("1", 255, [255]),
        ("P", (10, 20, 30), [10, 20, 30]),
        ("I;16", 0x8001, [0x80]),
        ("F", 1.0, [255]),
        ("RGBA", (1, 2, 3, 4), [1, 2, 3, 4]),
    ],
)
def test_samples_of_pictures_become_bytes(mode: str, pixel: Any, expected: list[int]) -> None:
    picture = Image.new("RGB", (3, 2), pixel).quantize(2) if mode == "P" else Image.new(mode, (3, 2), pixel)
    images = ItemSource(("a", "b"), [(picture, 0)]).read([0], None, VIEW)[0]
    assert (images.dtype, images[0, :, 1, 2].tolist()) == (torch.uint8, expected)


def test_picture_whose_samples_mean_nothing_is_named() -> None:
    source = ItemSource(("a", "b"), [(Image.new("F", (3, 2), 255.0), 0)], "--data my:own: test data")
    with pytest.raises(UserError, match=r"^--data my:own: test data: image 0: samples from 255 to 255, but"):
        source.read([0], None, VIEW)


def test_length_is_asked_for_once() -> None:
    items = [(torch.zeros(1, 2, 2), 0)]
    source = ItemSource(("a", "b"), items)
    assert len(source) == 1
    items.append(items[0])
    assert len(source) == 1


def test_function_may_return_a_list(module: str) -> None:
    assert len(opened(f"{module}:as_list").val) == 3


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


def test_items_with_other_attributes_of_these_names_are_items(module: str) -> None:
    data = opened(f"{module}:marked")
    assert isinstance(data.train, ItemSource)
    assert split_contents(data.train) == SplitContents(6, None, None)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ((2, 2), "(2, 2)"),
        ((2, 2, 1), "(2, 2, 1)"),
        ((7, -1, 0), "(7, -1, 0)"),
        ((2.5, 2.5, 1), "(2.5, 2.5, 1)"),
        ("many", "'many'"),
        (3, "3"),
    ],
)
def test_counts_that_cannot_be_right_are_an_error(counts: Any, found: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"the counts of 6 images in 3 classes are {found}")):
        split_contents(ItemSource(("x", "y", "z"), Counted(counts)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("one", "did not return a pair, but a Items"),
        ("number", "did not return a pair, but a int"),
        ("four", "did not return a pair, but a tuple of 4"),
        ("bare_lists", "training data is a list without classes or without length"),
        ("unreadable", "training data is a Unreadable that cannot be read"),
        ("missing", "has no attribute 'missing'"),
    ],
)
def test_function_that_returns_no_data_is_rejected(module: str, function: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(f"{module}:{function}")
    assert caught.value.message.startswith(f"--data {module}:{function}")
    assert caught.value.message.endswith(message)
