"""Contents are the same if the images are, and their changes are named."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from accel_train.data.contents import (
    Contents,
    SplitContents,
    changes,
    consistent,
    contents_of,
    files_of,
    first_difference,
    split_contents,
)
from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, Subset
from accel_train.data.sources.memory import MemorySource
from accel_train.errors import UserError
from accel_train.system.records import checked

BEFORE = Contents(("cat", "dog"), {"train": SplitContents(5, (3, 2), "t1"), "val": SplitContents(2, (1, 1), "v1")})
FILES = {
    "train": {"cat/1": 10, "cat/2": 20, "cat/3": 30, "dog/1": 10, "dog/2": 20},
    "val": {"cat/9": 90, "dog/9": 91},
}


def with_split(split: str, **changed: Any) -> Contents:
    return replace(BEFORE, splits={**BEFORE.splits, split: replace(BEFORE.splits[split], **changed)})


def with_files(split: str, *, without: str | None = None, **changed: int) -> dict[str, dict[str, int]]:
    files = {**FILES[split], **{name.replace("_", "/"): size for name, size in changed.items()}}
    files.pop(without or "", None)
    return {**FILES, split: files}


def memory(pixel: int = 0, label: int = 0) -> MemorySource:
    images = torch.zeros(3, 1, 3, 3, dtype=torch.uint8)
    images[2, 0, 2, 2] = pixel
    return MemorySource(("a", "b"), images, torch.tensor([0, 1, label]))


def test_classes_of_a_users_source_may_be_numbers() -> None:
    images = torch.zeros(2, 1, 3, 3, dtype=torch.uint8)
    source = MemorySource((0, 1), images, torch.tensor([0, 1]))  # type: ignore[arg-type]
    contents = contents_of(DataSet("user", "", source, source, (0.0,), (1.0,)))
    assert contents.classes == ("0", "1")
    assert checked(contents.as_record(), Contents) == contents


@dataclass(frozen=True)
class Miscounted:
    counts: tuple[int, ...]
    classes = ("a", "b")

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize("counts", [(1, 1), (3,), (1, 1, 1)])
def test_users_source_that_counts_wrongly_is_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(UserError) as caught:
        split_contents(Miscounted(counts))  # type: ignore[arg-type]
    assert caught.value.message.startswith("the counts of 3 images in 2 classes are (")
    assert caught.value.hint == "let `counts` be the number of images of each class"
    assert split_contents(Miscounted((1, 2))).counts == (1, 2)  # type: ignore[arg-type]


def test_contents_survive_as_a_record() -> None:
    unknown = replace(BEFORE, splits=dict.fromkeys(("train", "val"), SplitContents(2, None, None)))
    for contents in (BEFORE, unknown, replace(BEFORE, classes=("\udcff", "猫"))):
        read = checked(contents.as_record(), Contents)
        assert read == contents
        assert consistent(read).digest == contents.digest


@pytest.mark.parametrize(
    ("splits", "problem"),
    [
        ({"val": SplitContents(2, None, None)}, "the splits are 'val' instead of train and val"),
        ({**BEFORE.splits, "val": SplitContents(2, (1,), None)}, "the counts of val are not those of 2 images"),
        ({**BEFORE.splits, "val": SplitContents(3, (1, 1), None)}, "the counts of val are not those of 3 images"),
    ],
)
def test_contents_that_contradict_themselves_are_rejected(splits: dict[str, SplitContents], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        consistent(Contents(BEFORE.classes, splits))


@pytest.mark.parametrize(
    "other",
    [
        replace(BEFORE, classes=("dog", "cat")),
        with_split("train", images=6),
        with_split("val", counts=(0, 2)),
        with_split("val", fingerprint="v2"),
        replace(BEFORE, splits={"train": BEFORE.splits["train"]}),
    ],
)
def test_digest_differs_with_every_value(other: Contents) -> None:
    assert other.digest != BEFORE.digest
    assert 0 <= other.digest < 2**63
    assert not BEFORE.surely_equals(other)


def test_data_without_fingerprint_are_never_surely_equal() -> None:
    assert BEFORE.surely_equals(replace(BEFORE))
    unknown = with_split("val", fingerprint=None)
    assert unknown == replace(unknown)
    assert not unknown.surely_equals(unknown)


def test_contents_of_memory_are_its_pixels_and_labels() -> None:
    found = split_contents(memory())
    assert (found.images, found.counts) == (3, (2, 1))
    assert split_contents(memory()) == found
    assert split_contents(memory(pixel=1)).fingerprint != found.fingerprint  # the last of 27 bytes
    assert split_contents(memory(label=1)).fingerprint != found.fingerprint
    transposed = replace(memory(pixel=1), images_NCHW=memory(pixel=1).images_NCHW.transpose(2, 3))
    assert split_contents(transposed) == split_contents(memory(pixel=1))  # a view of the same pixels
    wide = replace(memory(), images_NCHW=memory().images_NCHW.reshape(3, 1, 1, 9))
    assert split_contents(wide).fingerprint != found.fingerprint


def test_limit_does_not_change_the_contents() -> None:
    whole, limited = (open_data("digits", directory=None, val_fraction=None, seed=0, limit=n) for n in (None, 7))
    assert contents_of(limited) == contents_of(whole)
    assert contents_of(whole).splits["train"].images == 1438


@dataclass(frozen=True)
class Listed:
    paths: tuple[str, ...]
    sizes: NDArray[np.int64]

    def labelled_paths(self) -> tuple[str, ...]:
        return self.paths


def test_files_of_sources_that_have_them() -> None:
    train: Any = Listed(("cat/1", "dog/1"), np.array([10, 20]))
    assert files_of(train=train, val=Subset(train, np.array([1]))) == {
        "train": {"cat/1": 10, "dog/1": 20},
        "val": {"cat/1": 10, "dog/1": 20},
    }
    assert files_of(train=train, val=memory()) is None


@pytest.mark.parametrize(
    ("now", "files", "expected"),
    [
        (BEFORE, FILES, ""),
        (with_split("train", fingerprint="t2"), FILES, "train contains other images"),
        (
            with_split("train", fingerprint="t2", counts=(5, 2), images=7),
            with_files("train", without="cat/1", cat_4=1, cat_5=2, cat_6=3),
            "+3 −1 files in train/cat",
        ),
        (
            with_split("val", fingerprint="v2"),
            with_files("val", cat_9=9, dog_9=9),
            "1 file of another size in val/cat, 1 file of another size in val/dog",
        ),
        (
            Contents(("cat", "zebra"), with_split("train", fingerprint="t2").splits),
            with_files("train", zebra_1=1),
            "class dog is missing, class zebra is new",
        ),
        (replace(BEFORE, classes=("dog", "cat")), FILES, "the classes are dog, cat instead of cat, dog"),
    ],
)
def test_changes_of_files_are_counted_by_class(now: Contents, files: Any, expected: str) -> None:
    assert changes(BEFORE, now, FILES, files) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (with_split("train", fingerprint="t2", counts=(3, 4), images=7), "train/dog contains 4 images instead of 2"),
        (with_split("val", counts=None, images=9), "val contains 9 images instead of 2"),
        (with_split("val", fingerprint="v2"), "val contains other images"),
        (with_split("val", fingerprint=None), "val contains other images"),
    ],
)
def test_changes_without_files_are_counted_by_image(now: Contents, expected: str) -> None:
    assert changes(BEFORE, now, None, None) == changes(BEFORE, now, FILES, None) == expected


def test_only_the_first_changes_are_listed() -> None:
    now = Contents(tuple("abcdef"), BEFORE.splits)
    assert changes(BEFORE, now, None, None) == (
        "class cat is missing, class dog is missing, class a is new, class b is new, and 4 more changes"
    )


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (with_files("train", without="cat/2", dog_3=1), "train/cat/2 is missing"),
        (with_files("val", dog_3=1), "val/dog/3 is new"),
        (with_files("val", cat_9=1234), "val/cat/9 has 1,234 bytes instead of 90"),
    ],
)
def test_first_difference_names_the_file(files: Any, expected: str) -> None:
    assert first_difference(BEFORE, with_split("val", fingerprint="v2"), FILES, files) == expected


def test_first_difference_without_files_is_the_first_change() -> None:
    other = replace(BEFORE, classes=("dog", "cat"))
    assert first_difference(BEFORE, other, FILES, FILES) == "the classes are dog, cat instead of cat, dog"
    assert first_difference(BEFORE, with_split("val", images=9, counts=None), None, None) == (
        "val contains 9 images instead of 2"
    )
