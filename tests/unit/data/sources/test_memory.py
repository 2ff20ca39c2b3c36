"""In-memory sources read by id, and their tensors can be moved, also under a subset."""

import numpy as np
import torch

from accel_train.data.sources.base import Subset, View
from accel_train.data.sources.memory import MemorySource, in_memory, memory_data, move
from accel_train.data.sources.user import ItemSource

VIEW = View(8, random_crop=True)


def ten_images() -> MemorySource:
    pixels = torch.arange(10, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 3)
    return MemorySource(("a", "b"), pixels, torch.arange(10) % 2)


def test_reads_ids_in_the_order_given_whatever_keys_and_view() -> None:
    images, labels = ten_images().read([7, 0, 7], [1, 2, 3], VIEW)
    assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)
    assert images[:, 0, 0, 0].tolist() == [7, 0, 7]
    assert labels.tolist() == [1, 0, 1]
    assert ten_images().shape == images.shape[1:] == (1, 2, 3)


def test_only_memory_sources_and_their_subsets_are_in_memory() -> None:
    items = ItemSource(("a", "b"), [])
    ids = np.array([1])
    for source, expected in ((ten_images(), True), (items, False)):
        assert [in_memory(each) for each in (source, Subset(source, ids), Subset(Subset(source, ids), ids))] == [
            expected
        ] * 3


def test_move_applies_the_function_to_images_and_labels_also_under_a_subset() -> None:
    moved = move(Subset(ten_images(), np.array([9, 4])), lambda tensor: tensor + 1)
    images, labels = moved.read([1, 0], None, VIEW)
    assert images[:, 0, 0, 0].tolist() == [5, 10]
    assert labels.tolist() == [1, 2]


def test_data_set_is_normalised_by_its_training_images() -> None:
    pixels = torch.full((4, 1, 2, 2), 51, dtype=torch.uint8)
    train = MemorySource(("a", "b"), pixels, torch.arange(4) % 2)
    data = memory_data("digits", "generated", train, ten_images())
    assert (data.kind, data.origin, data.mean) == ("digits", "generated", (0.2,))
    assert (data.train, len(data.val), data.ignored_files) == (train, 10, 0)
