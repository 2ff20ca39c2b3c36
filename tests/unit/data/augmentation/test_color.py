"""Colours are changed as torchvision changes them, each image by its own factor."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as reference

from accel_train.data.augmentation import color
from accel_train.rng import fractions, make_key


def noise(batch: int, channels: int = 3, height: int = 19, width: int = 14) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, channels, height, width), dtype=torch.uint8, generator=generator)


def assert_equal_but_for_truncation(made: Tensor, expected: Tensor) -> None:
    """Check that images differ by at most 1 of 255, in at most 3 % of the values: 1.9999999 and 2.0 become 1 and 2."""
    differences = (made.int() - expected.int()).abs()
    assert int(differences.max()) <= 1
    assert int(differences.sum()) <= 0.03 * made.numel()


FACTORS = [0.0, 0.01, 0.1, 0.55, 0.99, 1.0, 1.27, 1.6, 1.9, 1.99]
CASES = {
    "brightness": (color.brightness, reference.adjust_brightness, FACTORS),
    "contrast": (color.contrast, reference.adjust_contrast, FACTORS),
    "saturation": (color.saturation, reference.adjust_saturation, FACTORS),
    "sharpness": (color.sharpness, reference.adjust_sharpness, FACTORS),
    "posterize": (color.posterize, lambda image, bits: reference.posterize(image, int(bits)), [0, 1, 2, 4, 7, 8]),
    "solarize": (color.solarize, reference.solarize, [0.0, 0.5, 100.0, 127.4, 254.2, 255.0]),
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_each_image_is_changed_as_torchvision_changes_it(name: str, channels: int, layout: torch.memory_format) -> None:
    change, expected, factors = CASES[name]
    images = noise(len(factors), channels).contiguous(memory_format=layout)
    made = change(images, torch.tensor(factors))
    assert made.dtype == torch.uint8
    for image, factor, each in zip(images, factors, made, strict=True):
        assert_equal_but_for_truncation(each, expected(image, factor))


def test_blend_with_grey_is_exact_up_to_a_last_bit() -> None:
    images, factors = noise(191), torch.linspace(0.1, 1.9, 191, dtype=torch.float64)
    red, green, blue = images.double().unbind(1)
    grey = (0.2989 * red + 0.587 * green + 0.114 * blue).floor().unsqueeze(1)
    exact = (factors.view(-1, 1, 1, 1) * images + (1 - factors.view(-1, 1, 1, 1)) * grey).clamp(0, 255)
    made = color.saturation(images, factors.float())
    assert ((made >= (exact - 1e-3).floor().clamp(min=0)) & (made <= (exact + 1e-3).floor())).all()


@pytest.mark.parametrize("change", [color.brightness, color.contrast, color.saturation, color.sharpness])
def test_factor_of_one_changes_nothing(change: Callable[[Tensor, Tensor], Tensor]) -> None:
    images = noise(3)
    assert torch.equal(change(images, torch.ones(3)), images)


def test_hues_are_shifted_as_torchvision_shifts_them() -> None:
    shifts = [-0.5, -0.3, -0.1, 0.0, 0.05, 0.25, 0.5]
    images = noise(len(shifts))
    images[:, :, :2] = images[:, :1, :2]  # grey rows, which have no hue
    images[:, :, 2:4] = 0
    images[:, 1, 4:6] = images[:, 0, 4:6]  # two channels are equal
    made = color.hue(images, torch.tensor(shifts))
    assert torch.equal(made[:, :, :4], images[:, :, :4])
    for image, shift, each in zip(images, shifts, made, strict=True):
        assert_equal_but_for_truncation(each, reference.adjust_hue(image, shift))


def test_grey_images_have_neither_hue_nor_saturation() -> None:
    images = noise(2, channels=1)
    assert torch.equal(color.hue(images, torch.tensor([0.3, -0.3])), images)
    assert torch.equal(color.saturation(images, torch.tensor([0.0, 2.0])), images)


def test_images_too_small_to_be_smoothed_are_not_sharpened() -> None:
    images = noise(2, height=2)
    assert torch.equal(color.sharpness(images, torch.tensor([0.0, 2.0])), images)


def test_jitter_changes_brightness_contrast_saturation_then_hue_by_factors_of_each_image() -> None:
    images, sample_indices = noise(40), torch.arange(9, 49)
    made = color.ColorJitter(3, (0.4, 0.3, 0.2, 0.1))(images, sample_indices)
    draws = [2 * fractions(make_key(3, "jitter", number), sample_indices) - 1 for number in range(4)]
    expected = color.brightness(images, 1 + 0.4 * draws[0])
    expected = color.contrast(expected, 1 + 0.3 * draws[1])
    expected = color.saturation(expected, 1 + 0.2 * draws[2])
    assert torch.equal(made, color.hue(expected, 0.1 * draws[3]))


@pytest.mark.parametrize(
    ("strengths", "change"),
    [
        ((0.4, 0, 0, 0), color.brightness),
        ((0, 0.4, 0, 0), color.contrast),
        ((0, 0, 0.4, 0), color.saturation),
        ((0, 0, 0, 0.4), color.hue),
    ],
)
def test_jitter_changes_only_what_has_a_strength(
    strengths: tuple[float, ...], change: Callable[[Tensor, Tensor], Tensor]
) -> None:
    images, sample_indices = noise(8), torch.arange(8)
    number = next(n for n, strength in enumerate(strengths) if strength)
    draws = 0.4 * (2 * fractions(make_key(0, "jitter", number), sample_indices) - 1)
    made = color.ColorJitter(0, strengths)(images, sample_indices)
    assert torch.equal(made, change(images, draws if number == 3 else 1 + draws))
