"""Subsets, limits, crop keys and pixel statistics work on any source."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from accel_train.data import sources
from accel_train.data.sources import base, memory
from accel_train.data.sources.base import Subset, View, crop_keys, download_lock, pixel_statistics, spread
from accel_train.data.sources.memory import MemorySource
from accel_train.errors import UserError

VIEW = View(8, random_crop=False)


def ten_images() -> MemorySource:
    """Return images of one row, each filled with its id."""
    pixels = torch.arange(10, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 3)
    return MemorySource(("a", "b"), pixels, torch.arange(10) % 2)


def test_package_exports_what_a_users_source_needs() -> None:
    assert {name: getattr(sources, name) for name in sources.__all__} == {
        "MemorySource": memory.MemorySource,
        "Source": base.Source,
        "View": base.View,
    }
    with pytest.raises(AttributeError, match=r"module 'accel_train.data.sources' has no attribute 'Missing'"):
        sources.Missing  # noqa: B018


@pytest.mark.parametrize(
    ("count", "ids"), [(3, [0, 3, 6]), (10, list(range(10))), (1, [0]), (7, [0, 1, 2, 4, 5, 7, 8])]
)
def test_limit_takes_images_spread_over_the_source(count: int, ids: list[int]) -> None:
    source = spread(ten_images(), count)
    assert len(source) == count
    assert source.read(range(count), None, VIEW)[0][:, 0, 0, 0].tolist() == ids


@pytest.mark.parametrize("count", [None, 10, 11])
def test_source_without_effective_limit_is_returned_itself(count: int | None) -> None:
    source = ten_images()
    assert spread(source, count) is source


def test_subset_reads_its_ids_of_the_source() -> None:
    subset = Subset(ten_images(), np.array([9, 4]))
    assert (subset.classes, subset.shape, len(subset)) == (("a", "b"), (1, 2, 3), 2)
    images, labels = subset.read([1, 0], None, VIEW)
    assert images[:, 0, 0, 0].tolist() == [4, 9]
    assert labels.tolist() == [0, 1]


def test_subset_passes_keys_and_view_on() -> None:
    class Recorder:
        classes = ("a", "b")
        shape = (1, 1, 1)
        asked: object = None

        def __len__(self) -> int:
            return 5

        def read(self, ids: base.Ids, keys: base.Ids | None, view: View) -> tuple[Tensor, Tensor]:
            self.asked = (list(ids), keys, view)
            return torch.zeros(1), torch.zeros(1)

    source = Recorder()
    Subset(source, np.array([3, 1])).read([1], [7], View(9, random_crop=True))
    assert source.asked == ([1], [7], View(9, random_crop=True))


@pytest.mark.parametrize(
    ("keys", "random_crop", "expected"),
    [([5, 6], True, [5, 6]), ([5, 6], False, [None, None]), (None, True, [None, None]), (None, False, [None, None])],
)
def test_images_are_cropped_at_random_only_with_key_and_view(
    keys: list[int] | None, random_crop: bool, expected: list[int | None]
) -> None:
    given = None if keys is None else np.array(keys)
    assert list(crop_keys([3, 4], given, View(8, random_crop))) == expected


def test_statistics_are_those_of_all_pixels_of_each_channel() -> None:
    pixels = torch.tensor([[[[0, 255]], [[51, 51]]], [[[255, 0]], [[51, 51]]]], dtype=torch.uint8)
    mean, std = pixel_statistics(MemorySource(("a", "b"), pixels, torch.tensor([0, 1])))
    assert mean == pytest.approx((0.5, 0.2), rel=1e-12)
    assert std == pytest.approx((0.5, 1 / 255), rel=1e-12)  # never 0: it divides


def test_statistics_view_whole_images_at_the_sources_size() -> None:
    class Recorder:
        classes = ("a", "b")
        shape = (1, 4, 6)

        def __len__(self) -> int:
            return 5000

        def read(self, ids: base.Ids, keys: base.Ids | None, view: View) -> tuple[Tensor, Tensor]:
            assert (len(ids), keys, view) == (4096, None, View(6, random_crop=False))
            return torch.zeros(4096, 1, 4, 6), torch.zeros(4096, dtype=torch.int64)

    assert pixel_statistics(Recorder()) == ((0.0,), (1.0,))


def test_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=f"cannot create {tmp_path}/file/data: Not a directory"),
        download_lock(tmp_path / "file" / "data"),
    ):
        pass
