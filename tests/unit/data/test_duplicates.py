"""Images of two splits that are the same, or look alike."""

import itertools

import numpy as np
import pytest

from accel_train.data.duplicates import MOST_DIFFERENT_BITS, Pair, alike, same_bytes
from accel_train.data.examine import Examined


def image(digest: str, likeness: int | None = None) -> Examined:
    return Examined(digest.encode(), likeness)


def test_images_with_the_same_bytes_are_found_in_every_pair_of_splits() -> None:
    splits = {
        "train": [image("a"), image("b"), image("a"), Examined(problem="damaged")],
        "val": [image("c"), image("a"), Examined(problem="damaged")],
        "test": [image("c"), image("b"), image("d")],
    }
    assert list(same_bytes(splits)) == [
        Pair(("train", 0), ("val", 1)),
        Pair(("train", 1), ("test", 1)),
        Pair(("val", 0), ("test", 0)),
    ]


def test_images_within_a_split_are_no_pairs() -> None:
    splits = {"train": [image("a", 7), image("a", 7)], "val": [image("b"), image("b")]}
    assert list(same_bytes(splits)) == list(alike(splits)) == []


@pytest.mark.parametrize("bits", [(), (0,), (63,), (0, 13, 26, 39), (60, 61, 62, 63), (12, 25, 38, 51)])
def test_images_that_differ_in_few_bits_look_alike(bits: tuple[int, ...]) -> None:
    hash_ = 0xF0E1_D2C3_B4A5_9687
    changed = hash_ ^ sum(1 << bit for bit in bits)
    splits = {"train": [image("x", ~hash_ & 2**64 - 1), image("a", hash_)], "val": [image("b", changed)]}
    assert list(alike(splits)) == [Pair(("train", 1), ("val", 0))]


def test_images_of_more_bits_or_of_the_same_bytes_are_not_named() -> None:
    far = sum(1 << bit for bit in range(0, 64, 13))
    assert far.bit_count() == MOST_DIFFERENT_BITS + 1
    splits = {
        "train": [image("a", 0), image("same", 2**40)],
        "val": [image("b", far), image("same", 2**40), image("c")],
    }
    assert list(alike(splits)) == [Pair(("train", 0), ("val", 1))]  # of other bytes, one bit away


def test_every_pair_that_is_near_enough_is_found() -> None:
    rng = np.random.default_rng(0)
    train = rng.integers(0, 2**64, 300, dtype=np.uint64).tolist()
    val = [train[n] ^ sum(1 << int(bit) for bit in rng.choice(64, n % 8, replace=False)) for n in range(200)]
    splits = {
        "train": [image(f"t{n}", h) for n, h in enumerate(train)],
        "val": [image(f"v{n}", h) for n, h in enumerate(val)],
    }
    nearest = {n: min(((h ^ other).bit_count(), m) for m, other in enumerate(train)) for n, h in enumerate(val)}
    expected = [Pair(("train", m), ("val", n)) for n, (bits, m) in nearest.items() if bits <= MOST_DIFFERENT_BITS]
    assert list(alike(splits)) == expected
    assert len(expected) == len([n for n in range(200) if n % 8 <= MOST_DIFFERENT_BITS])


def test_splits_without_hashes_have_nothing_alike() -> None:
    none, some = [image("a"), image("b")], [image("c", 5)]
    for train, val in itertools.permutations((none, some)):
        assert list(alike({"train": train, "val": val})) == []
