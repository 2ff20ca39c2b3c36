"""Images are moved as torchvision moves them, each by its own parameters."""

import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import InterpolationMode, affine, rotate

from accel_train.data.augmentation import affine as ours
from accel_train.rng import fractions, make_key

LINEAR = InterpolationMode.BILINEAR
STILL = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], "interpolation": LINEAR}


def noise(batch: int, height: int = 23, width: int = 17, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, channels, height, width), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 3])
def test_each_image_is_rotated_as_torchvision_rotates_it(layout: torch.memory_format, channels: int) -> None:
    images, degrees = (
        noise(9, channels=channels).contiguous(memory_format=layout),
        [-135, -90, -17.5, 0, 1, 30, 45, 89, 170],
    )
    made = ours.affine(images, torch.tensor([ours.rotation(each) for each in degrees]))
    for image, angle, each in zip(images, degrees, made, strict=True):
        assert torch.equal(each, rotate(image, angle, interpolation=LINEAR))


@pytest.mark.parametrize(("right", "down"), [(0, 0), (3, 0), (0, -4), (5, 7), (17, 0), (-40, 2)])
def test_image_is_translated_as_torchvision_translates_it(right: int, down: int) -> None:
    images = noise(2)
    made = ours.affine(images, torch.tensor([ours.translation(right, down)] * 2))
    assert torch.equal(made, affine(images, **{**STILL, "translate": [right, down]}))


@pytest.mark.parametrize("slope", [-0.99, -0.3, 0.1, 0.5])
def test_image_is_sheared_as_torchvision_shears_it(slope: float) -> None:
    images, degrees = noise(1), float(torch.rad2deg(torch.atan(torch.tensor(slope, dtype=torch.float64))))
    expected = {
        ours.shear_x(slope, 23): affine(images, **{**STILL, "shear": [degrees, 0.0], "center": [0, 0]}),
        ours.shear_y(slope, 17): affine(images, **{**STILL, "shear": [0.0, degrees], "center": [0, 0]}),
    }
    for matrix, reference in expected.items():
        difference = (ours.affine(images, torch.tensor([matrix])).int() - reference.int()).abs()
        assert (int(difference.max()), int((difference > 0).sum())) <= (1, 3)  # rounded at a half


def test_float_images_are_moved_without_rounding() -> None:
    images = torch.rand(3, 3, 9, 9)
    made = ours.affine(images, torch.tensor([ours.rotation(33.0)] * 3))
    torch.testing.assert_close(made, rotate(images, 33.0, interpolation=LINEAR), rtol=0, atol=1e-5)


def test_rotation_draws_an_angle_for_each_image() -> None:
    images, sample_indices = noise(50), torch.arange(700, 750)
    made = ours.Rotation(5, 40)(images, sample_indices)
    angles = 40 * (2 * fractions(make_key(5, "rotate"), sample_indices) - 1)
    assert angles.min() < -35
    assert angles.max() > 35
    for image, angle, each in zip(images, angles, made, strict=True):
        difference = each.int() - rotate(image, float(angle), interpolation=LINEAR).int()
        assert (int(difference.abs().max()), int((difference != 0).sum())) <= (1, 3)


def test_no_rotation_changes_nothing() -> None:
    images = noise(3)
    assert torch.equal(ours.Rotation(0, 0)(images, torch.arange(3)), images)
    assert v2.RandomRotation(0, LINEAR)(images).equal(images)
