"""Random boxes have the areas, shapes and places that were asked for; crops and rectangles are torchvision's."""

import math

import pytest
import torch
from helpers.chi_square import is_uniform
from torch import Tensor
from torchvision.transforms.v2.functional import erase, resized_crop

from accel_train.data.augmentation.boxes import Boxes, RandomErasing, ResizedCrop, random_boxes, resized_crops


def noise(batch: int, height: int = 24, width: int = 16, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (batch, channels, height, width), dtype=torch.uint8, generator=generator)


def boxes_of(numbers: list[tuple[int, int, int, int]]) -> Boxes:
    top, left, rows, columns = torch.tensor(numbers, dtype=torch.float32).unbind(1)
    return Boxes(top, left, rows, columns, torch.ones(len(numbers), dtype=torch.bool))


def test_areas_shapes_and_places_are_uniform() -> None:
    boxes = random_boxes(7, torch.arange(10_000), (1000, 1000), area=(0.1, 0.5), ratio=(0.5, 2.0))
    areas, ratios = boxes.rows_B * boxes.columns_B / 1e6, boxes.columns_B / boxes.rows_B
    assert boxes.found_B.all()
    assert is_uniform(((areas - 0.1) / 0.4).clamp(0, 0.9999))  # sides are rounded to pixels
    assert is_uniform(((ratios.log() - math.log(0.5)) / math.log(4)).clamp(0, 0.9999))
    for first, count in ((boxes.top_B, boxes.rows_B), (boxes.left_B, boxes.columns_B)):
        assert is_uniform((first + 0.5) / (1001 - count))


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (7, 3), (32, 32), (50, 8)])
def test_boxes_are_inside_the_image_and_fixed_by_key_and_sample_index(size: tuple[int, int]) -> None:
    def boxes(key: int, *sample_indices: int) -> Boxes:
        return random_boxes(key, torch.tensor(sample_indices), size, area=(0.08, 1.0), ratio=(0.75, 4 / 3))

    found = boxes(1, *range(1000))
    assert ((found.top_B >= 0) & (found.top_B + found.rows_B <= size[0]) & (found.rows_B >= 1)).all()
    assert ((found.left_B >= 0) & (found.left_B + found.columns_B <= size[1]) & (found.columns_B >= 1)).all()
    for part, alone in zip(found, boxes(1, 17), strict=True):
        assert part[17] == alone[0]
    if size == (32, 32):
        assert not torch.equal(found.top_B, boxes(2, *range(1000)).top_B)


def test_box_that_does_not_fit_is_the_whole_image() -> None:
    boxes = random_boxes(1, torch.arange(50), (10, 10), area=(1.0, 1.0), ratio=(3.0, 4.0))
    assert not boxes.found_B.any()
    assert {tuple(map(int, each)) for each in zip(*boxes[:4], strict=True)} == {(0, 0, 10, 10)}
    assert random_boxes(1, torch.arange(50), (10, 10), area=(1.0, 1.0), ratio=(1.0, 1.0)).found_B.all()
    assert not random_boxes(
        1, torch.arange(50), (10, 10), area=(1.0, 1.0), ratio=(1.0, 1.0), smaller=True
    ).found_B.any()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_each_box_is_enlarged_as_torchvision_enlarges_it(layout: torch.memory_format) -> None:
    numbers = [(0, 0, 24, 16), (3, 2, 7, 9), (23, 15, 1, 1), (10, 0, 14, 3), (0, 5, 5, 11)]
    images = noise(len(numbers)).contiguous(memory_format=layout)
    for one in (images, images.float()):
        made = resized_crops(one, boxes_of(numbers))
        assert made.dtype == one.dtype
        for image, box, each in zip(images, numbers, made, strict=True):
            expected = resized_crop(image.float(), *box, size=[24, 16])
            expected = expected.round() if one.dtype == torch.uint8 else expected
            torch.testing.assert_close(each.float(), expected, rtol=0, atol=1.0 if one.dtype == torch.uint8 else 1e-3)
    assert torch.equal(resized_crops(images, boxes_of(numbers))[0], images[0])


def test_crop_takes_a_random_box_of_each_image() -> None:
    images, sample_indices = noise(20), torch.arange(40, 60)
    made = ResizedCrop(3, (0.3, 0.6), (1.0, 1.0))(images, sample_indices)
    assert len({bytes(each.numpy().tobytes()) for each in made}) == 20
    whole = ResizedCrop(3, (1.0, 1.0), (16 / 24, 16 / 24))(images, sample_indices)
    assert torch.equal(whole, images)


def test_a_rectangle_is_erased_as_torchvision_erases_it_in_the_share_of_images_asked_for() -> None:
    images, sample_indices = noise(4000, 12, 12), torch.arange(4000)
    made = RandomErasing(3, 0.25, (7, 8, 9))(images, sample_indices)
    changed = (made != images).flatten(1).any(1)
    assert int(changed.sum()) == pytest.approx(1000, abs=110)  # four standard deviations
    for image, each in zip(images[changed][:200], made[changed][:200], strict=True):
        rows, columns = ((each == torch.tensor([7, 8, 9]).view(3, 1, 1)).all(0)).nonzero().unbind(1)
        top, left = int(rows.min()), int(columns.min())
        height, width = int(rows.max()) - top + 1, int(columns.max()) - left + 1
        fill = torch.tensor([7, 8, 9], dtype=torch.uint8).view(3, 1, 1)
        assert torch.equal(each, erase(image, top, left, height, width, fill))
        assert 0.01 < height * width / 144 < 0.4
    assert torch.equal(images, noise(4000, 12, 12))


def test_float_images_are_erased_to_zero() -> None:
    images = noise(50).float()
    made = RandomErasing(0, 1.0, (9, 9, 9))(images, torch.arange(50))
    assert ((made == 0) | (made == images)).all()
    assert (made == 0).flatten(1).any(1).all()


def test_no_image_is_erased_with_probability_0_and_each_with_1() -> None:
    images, sample_indices = noise(300), torch.arange(300)
    assert torch.equal(RandomErasing(0, 0.0, (0, 0, 0))(images, sample_indices), images)
    assert (RandomErasing(0, 1.0, (0, 0, 0))(images, sample_indices) != images).flatten(1).any(1).all()
