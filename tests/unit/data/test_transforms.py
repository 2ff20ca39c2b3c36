"""Augmentation equals a slow loop over images, and depends only on the seed and the sample index."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from accel_train.config.defaults import Augmentation
from accel_train.data.transforms import CropAndFlip, ImageTransform
from accel_train.rng import integers, make_key


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


def crop_and_flip(images_BCHW: Tensor, sample_indices_B: Tensor, seed: int, augmentation: Augmentation) -> Tensor:
    return CropAndFlip(seed, augmentation, images_BCHW.device)(images_BCHW, sample_indices_B)


def slow_crop_and_flip(images_BCHW: Tensor, sample_indices_B: Tensor, seed: int, augmentation: Augmentation) -> Tensor:
    pad = augmentation.pad
    height, width = images_BCHW.shape[2:]
    made = []
    for image_CHW, sample_index in zip(images_BCHW, sample_indices_B, strict=True):
        down, right, mirrored = (
            int(integers(make_key(seed, name), sample_index[None], limit))
            for name, limit in (("down", 2 * pad + 1), ("right", 2 * pad + 1), ("flip", 2))
        )
        window = functional.pad(image_CHW, (pad,) * 4)[:, down : down + height, right : right + width]
        made.append(window.flip(2) if mirrored and augmentation.flip else window)
    return torch.stack(made)


@pytest.mark.parametrize("pad", [0, 1, 4])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_crop_and_flip_equals_the_slow_loop(pad: int, flip: bool, channels: int) -> None:
    images, sample_indices, augmentation = noise(64, channels), torch.arange(64) * 1437 + 5, Augmentation(pad, flip)
    made = crop_and_flip(images, sample_indices, 9, augmentation)
    assert made.dtype == torch.uint8
    assert torch.equal(made, slow_crop_and_flip(images, sample_indices, 9, augmentation))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_flip_without_pad_mirrors_the_same_images(layout: torch.memory_format) -> None:
    images, sample_indices = noise(64).contiguous(memory_format=layout), torch.arange(64) * 1437 + 5
    expected = slow_crop_and_flip(images, sample_indices, 9, Augmentation(flip=True))
    made = crop_and_flip(images, sample_indices, 9, Augmentation(flip=True))
    assert torch.equal(made, expected)
    assert made.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(transform(Augmentation(flip=True), seed=9)(images, sample_indices), transform()(expected))


def test_augmentation_of_an_image_does_not_depend_on_its_batch() -> None:
    images, sample_indices, augmentation = noise(10), torch.arange(100, 110), Augmentation(pad=2, flip=True)
    together = crop_and_flip(images, sample_indices, 0, augmentation)
    alone = torch.cat([crop_and_flip(images[i : i + 1], sample_indices[i : i + 1], 0, augmentation) for i in range(10)])
    assert torch.equal(together, alone)
    shuffled = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    assert torch.equal(crop_and_flip(images[shuffled], sample_indices[shuffled], 0, augmentation), together[shuffled])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("augmentation", [Augmentation(), Augmentation(pad=2, flip=True), Augmentation(flip=True)])
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


def test_augmentation_is_repeatable_and_differs_between_images_epochs_and_seeds() -> None:
    """s01: the same seed everywhere must not give every process the same crops."""
    image = noise(1, channels=1, height=8, width=8).expand(256, -1, -1, -1)
    augmentation = Augmentation(pad=4, flip=True)
    sample_indices = torch.arange(256)
    made = crop_and_flip(image, sample_indices, 0, augmentation)
    assert torch.equal(crop_and_flip(image, sample_indices, 0, augmentation), made)
    assert len({bytes(picture.numpy().tobytes()) for picture in made}) > 100  # of 162 possible
    for other in (
        crop_and_flip(image, sample_indices + 256, 0, augmentation),
        crop_and_flip(image, sample_indices, 1, augmentation),
    ):
        same = (other == made).flatten(1).all(1)
        assert int(same.sum()) < 10  # unrelated: 256 / 162 on average


def test_half_of_the_images_are_mirrored_and_shifts_are_uniform() -> None:
    column = torch.zeros(4000, 1, 5, 5, dtype=torch.uint8)
    column[:, :, 2, 1] = 255
    made = crop_and_flip(column, torch.arange(4000), 0, Augmentation(pad=0, flip=True))
    assert int((made[:, 0, 2, 3] == 255).sum()) + int((made[:, 0, 2, 1] == 255).sum()) == 4000
    assert int((made[:, 0, 2, 3] == 255).sum()) == pytest.approx(2000, abs=130)  # four standard deviations
    centre = torch.zeros(9000, 1, 3, 3, dtype=torch.uint8)
    centre[:, :, 1, 1] = 255
    counts = (crop_and_flip(centre, torch.arange(9000), 0, Augmentation(pad=1)) == 255).sum(dim=0)
    assert int(counts.sum()) == 9000
    assert counts.flatten().tolist() == pytest.approx([1000] * 9, abs=120)


@pytest.mark.parametrize("augmentation", [Augmentation(), Augmentation(random_crop=True)])
def test_sample_indices_change_nothing_without_pad_and_flip(augmentation: Augmentation) -> None:
    images = noise(4, width=8)
    plain = transform()
    assert torch.equal(transform(augmentation)(images, torch.arange(4)), plain(images))


def test_images_without_sample_indices_are_not_augmented() -> None:
    images = noise(4, width=8)
    assert torch.equal(transform(Augmentation(pad=4, flip=True))(images), transform()(images))


def test_images_are_augmented_before_normalisation_so_that_the_margin_is_black() -> None:
    augmentation, images, sample_indices = Augmentation(pad=4, flip=True), noise(16, width=8), torch.arange(16)
    cropped = crop_and_flip(images, sample_indices, 5, augmentation)
    assert torch.equal(transform(augmentation, seed=5)(images, sample_indices), transform()(cropped))


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
    assert transform(Augmentation(pad=1))(images, torch.arange(4)).is_contiguous(memory_format=torch.channels_last)


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
    augmentation = Augmentation(pad=2, flip=True)
    augmented = transform(augmentation, seed=4)(images, torch.arange(2))
    assert torch.equal(augmented, crop_and_flip(before, torch.arange(2), 4, augmentation))
