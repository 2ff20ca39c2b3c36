"""A hash of the seed and its path decides whether a picture is held out; each class keeps one on either side."""

import unicodedata

import numpy as np
import pytest
from numpy.typing import NDArray

from accel_train.data.sources.base import Request
from accel_train.data.sources.split import path_hash, split_ids
from accel_train.errors import UserError


def split(
    counts: dict[str, int], fraction: float | None = None, seed: int = 0
) -> tuple[list[str], list[str], NDArray[np.int64]]:
    """Return the paths of training and validation, and the counts of the latter, for pictures 0, 1, … of each class."""
    paths = [f"{name}/{number}.png" for name, count in counts.items() for number in range(count)]
    labels = np.repeat(np.arange(len(counts)), list(counts.values()))
    hashes = np.array(list(map(path_hash, paths)))
    ids = split_ids(Request("pics", None, fraction, seed), "pics", tuple(counts), labels, hashes)
    train, val = ([paths[i] for i in part] for part in ids)
    return train, val, np.bincount(labels[ids[1]], minlength=len(counts))


@pytest.mark.parametrize(("fraction", "expected"), [(None, 0.2), (0.2, 0.2), (0.5, 0.5), (0.9, 0.9)])
def test_every_class_holds_out_its_fraction(fraction: float | None, expected: float) -> None:
    train, val, counts = split({"a": 2000, "b": 4000}, fraction)
    assert counts / (2000, 4000) == pytest.approx([expected, expected], abs=0.03)
    assert sorted(train + val) == sorted(split({"a": 2000, "b": 4000})[0] + split({"a": 2000, "b": 4000})[1])
    assert not set(train) & set(val)


@pytest.mark.parametrize("seed", range(3))
def test_no_picture_changes_sides_when_others_come_or_go(seed: int) -> None:
    _, before, _ = split({"a": 50, "c": 50}, 0.3, seed)
    _, after, _ = split({"a": 49, "b": 20, "c": 90}, 0.3, seed)
    common = {f"a/{n}.png" for n in range(49)} | {f"c/{n}.png" for n in range(50)}
    assert set(before) & common == set(after) & common
    assert 10 < len(before) < 50


def test_split_depends_on_seed_and_class_but_not_on_the_order_of_pictures() -> None:
    _, val, _ = split({"a": 20, "b": 20}, 0.5)
    assert split({"a": 20, "b": 20}, 0.5)[1] == val
    assert split({"a": 20, "b": 20}, 0.5, seed=1)[1] != val
    assert sorted(split({"b": 20, "a": 20}, 0.5)[1]) == sorted(val)
    assert {path.partition("/")[2] for path in val if path[0] == "a"} != {
        path.partition("/")[2] for path in val if path[0] == "b"
    }


def test_each_class_keeps_a_picture_on_either_side() -> None:
    _, val, counts = split({"a": 30, "b": 2}, 1e-9)
    assert counts.tolist() == [1, 1]
    assert set(val) <= set(split({"a": 30, "b": 2}, 0.5)[1])  # the first that a larger fraction holds out
    train, _, counts = split({"a": 30, "b": 2}, 1 - 1e-9)
    assert counts.tolist() == [29, 1]
    assert set(train) <= set(split({"a": 30, "b": 2}, 0.5)[0])  # the last


def test_class_with_a_single_picture_is_rejected_by_name() -> None:
    with pytest.raises(UserError) as caught:
        split({"a": 30, "b": 1})
    assert (caught.value.message, caught.value.hint) == (
        "the class b of pics has 1 picture, too few to split",
        "add some, or remove it",
    )


def test_path_hash_does_not_depend_on_how_letters_are_composed() -> None:
    hashes = {path_hash(unicodedata.normalize(form, "café/é.png")) for form in ("NFC", "NFD")}
    assert len(hashes) == 1
    assert path_hash("a/0.png") == 3230863055585924566  # packed folders store it
