"""A picture becomes square by a crop, between margins, or distorted."""

import pytest
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2.functional import pad, resize

from accel_train.data.images.crops import centre_box, random_box
from accel_train.data.images.view import View


def noise(height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (1, 3, height, width), dtype=torch.uint8, generator=generator)


def test_picture_with_a_key_gets_the_random_box_and_one_without_the_central_one() -> None:
    view = View(8, random_crop=True, crop_scale=(0.3, 0.5), crop_ratio=(1.0, 2.0), centre_share=0.6)
    assert view.box(64, 80, 1) == random_box(64, 80, 1, (0.3, 0.5), (1.0, 2.0)) != centre_box(64, 80, 0.6)
    assert view.box(64, 80, None) == centre_box(64, 80, 0.6)
    assert View(8, random_crop=False).box(64, 80, None) == centre_box(64, 80)


@pytest.mark.parametrize("fit", ["pad", "squash"])
def test_whole_picture_is_read(fit: str) -> None:
    assert View(8, random_crop=False, fit=fit).box(64, 80, None) == (0, 0, 64, 80)


@pytest.mark.parametrize("size", [(40, 64), (64, 40), (30, 30), (3, 500), (500, 3)])
def test_squashed_picture_is_resized_to_a_square(size: tuple[int, int]) -> None:
    window = noise(*size)
    for fit in ("crop", "squash"):
        assert torch.equal(View(24, random_crop=False, fit=fit).resized(window), resize(window, [24, 24]))


@pytest.mark.parametrize(
    ("size", "inner", "margins"),  # left, top, right, bottom
    [
        ((40, 64), (15, 24), (0, 4, 0, 5)),
        ((64, 40), (24, 15), (4, 0, 5, 0)),
        ((30, 30), (24, 24), (0, 0, 0, 0)),
        ((3, 500), (1, 24), (0, 11, 0, 12)),
        ((12, 6), (24, 12), (6, 0, 6, 0)),
    ],
)
def test_padded_picture_keeps_its_shape_between_black_margins(
    size: tuple[int, int], inner: tuple[int, int], margins: tuple[int, int, int, int]
) -> None:
    window = noise(*size).contiguous(memory_format=torch.channels_last)
    made = View(24, random_crop=False, fit="pad").resized(window)
    assert torch.equal(made, pad(resize(window, list(inner)), list(margins)))
    assert made.is_contiguous(memory_format=torch.channels_last)


def test_random_crop_has_no_margins() -> None:
    window = noise(40, 64)
    assert torch.equal(View(24, random_crop=True, fit="pad").resized(window, key=1), resize(window, [24, 24]))


@pytest.mark.parametrize("fit", ["squash", "pad"])
def test_picture_is_resized_with_the_interpolation_of_given_weights(fit: str) -> None:
    window = noise(40, 40)
    expected = resize(window, [24, 24], interpolation=InterpolationMode.BICUBIC)
    assert torch.equal(View(24, random_crop=False, fit=fit, interpolation="bicubic").resized(window), expected)
