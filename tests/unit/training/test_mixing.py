"""Mixup and CutMix do what torchvision's do for the same parameters, and draw these by key alone.

Shape suffixes: B images, C channels, H height, W width.
"""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.chi_square import fits
from torch import Tensor
from torch.nn import functional
from torchvision.transforms import v2

from accel_train.training.loss import Targets
from accel_train.training.mixing import Mix, Mixing, by_box

KEYS = 10_000
SHARES = [0.0, 0.1, 0.36, 0.5, 0.9, 1.0]


def pictures(channels: int = 3, size: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    images_BCHW = torch.randn(5, channels, size, size, generator=generator)
    return images_BCHW.contiguous(memory_format=torch.channels_last)


def one_hot(targets: Targets, classes: int) -> Tensor:
    """Return the share of each class in the label of each image."""
    assert targets.others_B is not None
    labels, others = (functional.one_hot(each, classes) for each in targets[:2])
    return labels * (1 - targets.others_share) + others * targets.others_share


@pytest.mark.parametrize("share", SHARES)
def test_mixup_equals_torchvisions(share: float) -> None:
    images, labels, mix = pictures(), torch.tensor([0, 1, 2, 3, 1]), Mix(1, share, None)
    params = {"lam": share, "labels": labels, "batch_size": 5}
    transform = v2.MixUp(num_classes=4)
    torch.testing.assert_close(mix.images(images), transform.transform(images, params), rtol=0, atol=1e-5)
    torch.testing.assert_close(one_hot(mix.targets(labels), 4), transform.transform(labels, params))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 4), (7, 2), (3, 6)])
def test_cutmix_equals_torchvisions(monkeypatch: pytest.MonkeyPatch, share: float, row: int, column: int) -> None:
    images, labels, mix = pictures(), torch.tensor([0, 1, 2, 3, 1]), by_box(1, share, row, column, 8)
    transform = v2.CutMix(num_classes=4)
    monkeypatch.setattr(transform, "_dist", SimpleNamespace(sample=lambda *_: share))
    centres = iter([column, row])
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([next(centres)]))
    params: dict[str, Any] = transform.make_params([images]) | {"labels": labels, "batch_size": 5}
    assert mix.share == pytest.approx(params["lam_adjusted"])
    assert torch.equal(mix.images(images), transform.transform(images, params))
    torch.testing.assert_close(one_hot(mix.targets(labels), 4), transform.transform(labels, params))


@pytest.mark.parametrize("mix", [Mix(2, 0.3, None), by_box(2, 0.3, 3, 5, 8)])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_channels_last_and_the_given_ones_not_changed(mix: Mix, channels: int) -> None:
    images = pictures(channels)
    before = images.clone()
    grey = images[:, :1].expand(-1, 3, -1, -1)  # as the transform repeats grey images: without memory of their own
    mixed = mix.images(images)
    assert mixed.stride() == (64 * channels, 1, 8 * channels, channels)  # also with one channel, as transforms give it
    assert mix.images(grey).stride() == (192, 1, 24, 3)
    assert not torch.equal(mixed, before)
    torch.testing.assert_close(mix.images(grey), mixed[:, :1].expand(-1, 3, -1, -1), rtol=0, atol=0)
    assert torch.equal(images, before)


@pytest.mark.parametrize("mix", [Mix(2, 0.3, None), by_box(2, 0.3, 3, 5, 8)])
def test_process_without_images_gets_the_same_labels(mix: Mix) -> None:
    labels = torch.tensor([0, 1, 2, 3, 1])
    assert mix.images(torch.empty(5, 0, 0, 0)).shape == (5, 0, 0, 0)
    assert mix.targets(labels).labels_B.tolist() == [3, 1, 0, 1, 2]  # 0.3 is the smaller share


def test_label_of_the_larger_share_comes_first() -> None:
    labels = torch.tensor([0, 1, 2])
    larger, smaller = Mix(1, 0.7, None).targets(labels), Mix(1, 0.2, None).targets(labels)
    assert (larger.labels_B.tolist(), larger.others_share) == ([0, 1, 2], pytest.approx(0.3))
    assert (smaller.labels_B.tolist(), smaller.others_share) == ([2, 0, 1], pytest.approx(0.2))


def is_fair(found: list[int], cells: int) -> bool:
    counts = torch.bincount(torch.tensor(found, dtype=torch.int64), minlength=cells).float()
    return len(counts) == cells and fits(counts, torch.full((cells,), len(found) / cells))


def drawn(mixing: Mixing) -> list[Mix]:
    """Return the mixes of 2,500 updates of four micro-batches of 11 images."""
    return [mixing.draw(update, v, 11) for update, v in itertools.product(range(KEYS // 4), range(4))]


def test_shares_and_pairs_have_their_distribution() -> None:
    found = drawn(Mixing(3, mixup=1.0))
    assert is_fair([int(10 * mix.share) for mix in found], 10)  # Beta(1, 1) is uniform
    assert is_fair([mix.shift - 1 for mix in found], 10)  # never 0: no image is its own partner
    assert {mix.box for mix in found} == {None}
    shares = np.array([mix.share for mix in drawn(Mixing(3, mixup=0.2))])
    assert shares.mean() == pytest.approx(0.5, abs=0.02)
    assert shares.var() == pytest.approx(1 / (4 * (2 * 0.2 + 1)), rel=0.05)
    assert shares.min() >= 0
    assert shares.max() <= 1


def test_boxes_have_their_distribution() -> None:
    size = 40
    found = drawn(Mixing(3, cutmix=1.0, size=size))
    boxes = [mix.box for mix in found if mix.box is not None]
    assert len(boxes) == KEYS
    inside = [
        centre
        for rows, columns in boxes
        for side in (rows, columns)
        if side.start > 0 and side.stop < size and side.start < side.stop <= side.start + 10
        for centre in [(side.start + side.stop) // 2]
        if 5 <= centre < 35
    ]
    assert len(inside) > 1000
    assert is_fair([(centre - 5) // 3 for centre in inside], 10)
    for mix in found:
        assert mix.box is not None
        area = (mix.box[0].stop - mix.box[0].start) * (mix.box[1].stop - mix.box[1].start)
        assert mix.share == pytest.approx(1 - area / size**2)


def test_with_both_each_micro_batch_gets_one_of_them() -> None:
    found = drawn(Mixing(3, mixup=0.2, cutmix=1.0, size=8))
    assert is_fair([mix.box is None for mix in found], 2)


def test_draws_follow_from_seed_update_and_micro_batch_index_alone() -> None:
    mixing = Mixing(3, mixup=0.2, cutmix=1.0, size=8)
    keys = list(itertools.product(range(20), range(3)))
    once = {key: mixing.draw(*key, 11) for key in keys}
    np.random.seed(0)
    torch.manual_seed(0)
    assert {key: Mixing(3, 0.2, 1.0, 8).draw(*key, 11) for key in reversed(keys)} == once
    assert len(set(map(str, once.values()))) == len(keys)
    assert all(Mixing(4, 0.2, 1.0, 8).draw(*key, 11) != mix for key, mix in once.items())


@pytest.mark.parametrize("alpha", [1e-300, 1e-5, 100.0])
def test_extreme_shares_are_numbers(alpha: float) -> None:
    for update in range(100):
        mix = Mixing(3, mixup=alpha).draw(update, 0, 11)
        assert 0 <= mix.share <= 1


@pytest.mark.parametrize(("mixing", "mixes"), [(Mixing(3), False), (Mixing(mixup=0.2), True), (Mixing(cutmix=1), True)])
def test_mixing_is_off_without_mixup_and_cutmix(mixing: Mixing, mixes: bool) -> None:
    assert bool(mixing) == mixes
