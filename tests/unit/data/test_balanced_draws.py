"""Every class comes equally often in an epoch, and every image of a class equally often in a run."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accel_train.data.balanced_draws import BalancedDraws
from accel_train.data.sampler import ImageOrder

LABELS = np.repeat([0, 2, 3], [50, 3, 17])[np.random.RandomState(0).permutation(70)]
"""Class 1 has no images."""


def drawn(epoch: int, draws: int, seed: int = 5) -> NDArray[np.int64]:
    return BalancedDraws(seed, LABELS).sample_indices(epoch, draws)


@pytest.mark.parametrize("draws", [1, 2, 3, 70, 71, 200])
def test_classes_are_equally_frequent(draws: int) -> None:
    total = np.zeros(4, dtype=int)
    for epoch in range(12):
        counts = np.bincount(LABELS[drawn(epoch, draws) % 70], minlength=4)
        assert counts.sum() == draws
        assert counts[1] == 0
        assert np.ptp(counts[[0, 2, 3]]) <= 1
        total += counts
        assert np.ptp(total[[0, 2, 3]]) <= 1  # the remainder does not always go to the same class


@pytest.mark.parametrize("draws", [2, 70, 200])
def test_images_of_a_class_are_equally_frequent_over_the_epochs(draws: int) -> None:
    indices = np.concatenate([drawn(epoch, draws) for epoch in range(40)])
    counts = np.bincount(indices % 70, minlength=70)
    for label in (0, 2, 3):
        assert np.ptp(counts[label == LABELS]) <= 1


def test_each_use_of_an_image_has_its_own_sample_index() -> None:
    indices = np.concatenate([drawn(epoch, 200) for epoch in range(40)])
    assert len(np.unique(indices)) == len(indices)


def test_passes_over_a_class_have_different_orders() -> None:
    stream = drawn(0, 3 * 17 * 3)  # 51 draws of each class
    of_three = stream[LABELS[stream % 70] == 3] % 70
    orders = {tuple(order) for order in of_three.reshape(3, 17).tolist()}
    assert len(orders) == 3
    assert all(sorted(order) == np.flatnonzero(LABELS == 3).tolist() for order in orders)


def test_draws_follow_from_seed_and_epoch() -> None:
    assert drawn(7, 70).tolist() == drawn(7, 70).tolist()
    assert drawn(7, 70).tolist() != drawn(7, 70, seed=6).tolist()
    assert sorted(drawn(7, 70) % 70) != sorted(drawn(8, 70) % 70)


@pytest.mark.parametrize("repeats", [1, 3])
def test_order_of_an_epoch_is_shuffled_and_balanced(repeats: int) -> None:
    order = ImageOrder(5, 70, repeats, BalancedDraws(5, LABELS))
    epochs = [order.sample_indices(epoch) for epoch in range(20)]
    indices = np.concatenate(epochs)
    assert len(np.unique(indices)) == len(indices) == 1400
    counts = np.bincount(LABELS[indices % 70], minlength=4)
    assert np.ptp(counts[[0, 2, 3]]) <= 20 * repeats  # the last image of an epoch may be short of copies
    changes: Any = np.diff(LABELS[epochs[0] % 70]) != 0
    assert changes.sum() > 25 / repeats  # classes alternate: sorted by class there would be two changes
