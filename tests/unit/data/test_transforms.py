"""Images as read become the input of the model: augmented, normalised, resized, channels last."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from accel_train.config.defaults import Augmentation
from accel_train.data.augmentation.crop_and_flip import CropAndFlip
from accel_train.data.transforms import ImageTransform

SHIFTED = Augmentation(shift=4, flip=0.5)
STRONG = Augmentation(shift=2, flip=0.5, rotate=5, color_jitter=(0.4, 0.4, 0.4, 0.1), trivial_augment=True)


def noise(batch: int, channels: int = 3, height: int = 8, width: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (batch, channels, height, width), dtype=torch.uint8, generator=generator)


def transform(
    augmentation: Augmentation = Augmentation(),  # noqa: B008
    seed: int = 0,
    channels: int = 3,
    size: int = 8,
    mean: tuple[float, ...] = (0.5, 0.25, 0.0),
    std: tuple[float, ...] = (0.5, 0.25, 1.0),
    dtype: torch.dtype = torch.float32,
) -> ImageTransform:
    return ImageTransform(seed, augmentation, channels, size, mean, std, dtype, torch.device("cpu"))


def crop_and_flip(images_BCHW: Tensor, sample_indices_B: Tensor, seed: int) -> Tensor:
    return CropAndFlip(seed, shift=SHIFTED.shift, flip=SHIFTED.flip, device=images_BCHW.device)(
        images_BCHW, sample_indices_B
    )


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("augmentation", [Augmentation(), SHIFTED, Augmentation(flip=0.5), STRONG])
def test_several_batches_at_once_are_bit_identical_to_one_by_one(
    channels: int, threads: int, augmentation: Augmentation
) -> None:
    """A row of 28 pixels does not fill whole vectors; all batches together are enough for two threads."""
    images, sample_indices = noise(320, channels, 28, 28), torch.arange(100, 420)
    made = transform(augmentation, channels=channels, size=28, mean=(0.28,) * channels, std=(0.35,) * channels)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = made(images, sample_indices)
        one_by_one = [made(*batch) for batch in zip(images.split(31), sample_indices.split(31), strict=True)]
    finally:
        torch.set_num_threads(before)
    assert torch.equal(together, torch.cat(one_by_one))


def test_sample_indices_change_nothing_without_augmentation() -> None:
    images = noise(4, width=8)
    assert torch.equal(transform()(images, torch.arange(4)), transform()(images))


def test_images_without_sample_indices_are_not_augmented() -> None:
    images = noise(4, width=8)
    assert torch.equal(transform(SHIFTED)(images), transform()(images))


def test_images_are_augmented_before_normalisation_so_that_the_margin_is_black() -> None:
    images, sample_indices = noise(16, width=8), torch.arange(16)
    cropped = crop_and_flip(images, sample_indices, 5)
    assert torch.equal(transform(SHIFTED, seed=5)(images, sample_indices), transform()(cropped))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pixels_are_scaled_to_one_then_normalised(dtype: torch.dtype) -> None:
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).view(3, 1, 1, 1).expand(3, 3, 8, 8)
    made = transform(dtype=dtype)(images)
    expected = torch.tensor([[-1.0, -1.0, 0.0], [-0.6, -0.2, 0.2], [1.0, 3.0, 1.0]], dtype=dtype)
    assert made.dtype == dtype
    torch.testing.assert_close(made[:, :, 3, 5], expected, rtol=1e-6, atol=1e-6)
    assert images.unique().tolist() == [0, 51, 255]


def test_images_are_returned_channels_last() -> None:
    images = noise(4, width=8)
    assert transform()(images).is_contiguous(memory_format=torch.channels_last)
    assert transform(Augmentation(shift=1))(images, torch.arange(4)).is_contiguous(memory_format=torch.channels_last)


def test_grey_images_are_repeated_for_a_model_with_three_channels() -> None:
    made = transform(mean=(0.5,), std=(0.5,))(noise(4, channels=1, width=8))
    assert made.shape == (4, 3, 8, 8)
    assert torch.equal(made[:, 0], made[:, 1])
    assert torch.equal(made[:, 0], made[:, 2])


def test_images_of_another_size_are_resized_with_antialiasing() -> None:
    half = torch.zeros(1, 3, 8, 4, dtype=torch.uint8)
    half[:, :, 4:] = 255
    made = transform(mean=(0.0,) * 3, std=(1.0,) * 3, size=16)(half)
    reference = functional.interpolate(half.float() / 255, size=(16, 16), mode="bilinear", antialias=True)
    torch.testing.assert_close(made, reference)
    assert (made[..., 0, 0].max(), made[..., 15, 15].min()) == (0.0, 1.0)
    shrunk = transform(mean=(0.0,) * 3, std=(1.0,) * 3, size=2)(half)
    torch.testing.assert_close(shrunk[0, 0].mean(dim=1), torch.tensor([1 / 7, 6 / 7]))  # triangle over 8 rows


def test_float_images_are_not_normalised_nor_written_to() -> None:
    images = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    before = images.clone()
    assert torch.equal(transform()(images), before)
    assert torch.equal(images, before)
    augmented = transform(SHIFTED, seed=4)(images, torch.arange(2))
    assert torch.equal(augmented, crop_and_flip(before, torch.arange(2), 4))


def test_erased_rectangle_is_the_mean_colour_within_half_a_level_and_zero_in_float_images() -> None:
    augmentation, std = Augmentation(random_erasing=1.0), (0.5, 0.25, 1.0)
    images = torch.full((40, 3, 8, 8), 255, dtype=torch.uint8)
    made = transform(augmentation, mean=(0.3, 0.25, 0.1), std=std)(images, torch.arange(40))
    erased = made[:, 0] < 1
    assert erased.flatten(1).any(1).all()
    for channel, each in enumerate(std):
        assert made[:, channel][erased].abs().max() <= 0.5 / 255 / each + 1e-6
    floats = transform(augmentation)(torch.ones(40, 3, 8, 8), torch.arange(40))
    assert set(floats.unique().tolist()) == {0.0, 1.0}


def test_grey_images_get_the_mean_of_each_channel_of_given_weights() -> None:
    images = noise(4, channels=1)
    shifted = Augmentation(shift=2, random_erasing=1.0)
    made = transform(shifted)
    expected = transform(shifted)(images.expand(-1, 3, -1, -1).contiguous(), torch.arange(4))
    assert torch.equal(made(images, torch.arange(4)), expected)
    plain = transform(size=6)(noise(4, 1, 6, 6))
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in ((0.5, 0.25, 0.0), (0.5, 0.25, 1.0)))
    torch.testing.assert_close(plain, (noise(4, 1, 6, 6) / 255 - mean) / std)


def test_images_are_resized_with_the_interpolation_of_given_weights() -> None:
    images = noise(4, height=24, width=24)
    device = torch.device("cpu")
    made = ImageTransform(0, Augmentation(), 3, 8, (0.0,) * 3, (1.0,) * 3, torch.float32, device, "bicubic")
    expected = functional.interpolate(images / 255, size=(8, 8), mode="bicubic", antialias=True)
    torch.testing.assert_close(made(images), expected)
