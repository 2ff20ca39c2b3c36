"""Shifts and flips equal a slow loop over images, and depend only on the seed and the sample index."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from accel_train.data.augmentation.crop_and_flip import CropAndFlip, VerticalFlip
from accel_train.rng import integers, make_key


def noise(batch: int, channels: int = 3, height: int = 8, width: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (batch, channels, height, width), dtype=torch.uint8, generator=generator)


def crop_and_flip(
    images_BCHW: Tensor, sample_indices_B: Tensor, seed: int, shift: int = 0, flip: float = 0.0
) -> Tensor:
    return CropAndFlip(seed, shift=shift, flip=flip, device=images_BCHW.device)(images_BCHW, sample_indices_B)


def slow_crop_and_flip(images_BCHW: Tensor, sample_indices_B: Tensor, seed: int, shift: int, flip: bool) -> Tensor:
    """Do as the first version did, which drew one bit for a flip."""
    height, width = images_BCHW.shape[2:]
    made = []
    for image_CHW, sample_index in zip(images_BCHW, sample_indices_B, strict=True):
        down, right, mirrored = (
            int(integers(make_key(seed, name), sample_index[None], limit))
            for name, limit in (("down", 2 * shift + 1), ("right", 2 * shift + 1), ("flip", 2))
        )
        window = functional.pad(image_CHW, (shift,) * 4)[:, down : down + height, right : right + width]
        made.append(window.flip(2) if mirrored and flip else window)
    return torch.stack(made)


@pytest.mark.parametrize("shift", [0, 1, 4])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_crop_and_flip_equals_the_slow_loop(shift: int, flip: bool, channels: int) -> None:
    images, sample_indices = noise(64, channels), torch.arange(64) * 1437 + 5
    made = crop_and_flip(images, sample_indices, 9, shift, 0.5 * flip)
    assert made.dtype == torch.uint8
    assert torch.equal(made, slow_crop_and_flip(images, sample_indices, 9, shift, flip))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_flip_without_shift_mirrors_the_same_images(layout: torch.memory_format) -> None:
    images, sample_indices = noise(64).contiguous(memory_format=layout), torch.arange(64) * 1437 + 5
    made = crop_and_flip(images, sample_indices, 9, flip=0.5)
    assert torch.equal(made, slow_crop_and_flip(images, sample_indices, 9, shift=0, flip=True))
    assert made.is_contiguous(memory_format=torch.channels_last)


def test_augmentation_of_an_image_does_not_depend_on_its_batch() -> None:
    images, sample_indices = noise(10), torch.arange(100, 110)
    together = crop_and_flip(images, sample_indices, 0, 2, 0.5)
    alone = torch.cat([crop_and_flip(images[i : i + 1], sample_indices[i : i + 1], 0, 2, 0.5) for i in range(10)])
    assert torch.equal(together, alone)
    shuffled = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    assert torch.equal(crop_and_flip(images[shuffled], sample_indices[shuffled], 0, 2, 0.5), together[shuffled])


def test_augmentation_is_repeatable_and_differs_between_images_epochs_and_seeds() -> None:
    """s01: the same seed everywhere must not give every process the same crops."""
    image = noise(1, channels=1, height=8, width=8).expand(256, -1, -1, -1)
    sample_indices = torch.arange(256)
    made = crop_and_flip(image, sample_indices, 0, 4, 0.5)
    assert torch.equal(crop_and_flip(image, sample_indices, 0, 4, 0.5), made)
    assert len({bytes(picture.numpy().tobytes()) for picture in made}) > 100  # of 162 possible
    for other in (
        crop_and_flip(image, sample_indices + 256, 0, 4, 0.5),
        crop_and_flip(image, sample_indices, 1, 4, 0.5),
    ):
        same = (other == made).flatten(1).all(1)
        assert int(same.sum()) < 10  # unrelated: 256 / 162 on average


@pytest.mark.parametrize(("flip", "mirrored"), [(0.0, 0), (0.2, 2000), (0.5, 5000), (1.0, 10_000)])
def test_share_of_images_that_is_mirrored(flip: float, mirrored: int) -> None:
    images = torch.zeros(10_000, 1, 5, 5, dtype=torch.uint8)
    images[:, :, 2, 1] = 255
    allowed = 4 * (10_000 * flip * (1 - flip)) ** 0.5  # four standard deviations
    right = crop_and_flip(images, torch.arange(10_000), 0, flip=flip)[:, 0, 2, 3] == 255
    down = VerticalFlip(0, flip)(images.transpose(2, 3), torch.arange(10_000))[:, 0, 3, 2] == 255
    for changed in (right, down):
        assert int(changed.sum()) == pytest.approx(mirrored, abs=allowed)
    if flip == 0.5:
        assert int((right & down).sum()) == pytest.approx(2500, abs=180)  # the two are independent


def test_shifts_are_uniform() -> None:
    centre = torch.zeros(9000, 1, 3, 3, dtype=torch.uint8)
    centre[:, :, 1, 1] = 255
    counts = (crop_and_flip(centre, torch.arange(9000), 0, shift=1) == 255).sum(dim=0)
    assert int(counts.sum()) == 9000
    assert counts.flatten().tolist() == pytest.approx([1000] * 9, abs=120)


def test_vertical_flip_turns_whole_images_upside_down() -> None:
    images = noise(6)
    assert torch.equal(VerticalFlip(0, 1.0)(images, torch.arange(6)), images.flip(2))
    assert torch.equal(VerticalFlip(0, 0.0)(images, torch.arange(6)), images)
