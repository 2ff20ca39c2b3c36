"""RandAugment and TrivialAugment apply torchvision's operations, drawn for each image by its key."""

import pytest
import torch
from helpers.chi_square import fits
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import InterpolationMode

from accel_train.data.augmentation.operations import (
    MAGNITUDES,
    OPERATIONS,
    RAND_AUGMENT,
    TRIVIAL_AUGMENT_WIDE,
    RandomOperations,
    Space,
    numbers_of,
    operate,
)
from accel_train.rng import integers, make_key

COLOR = 7
LINEAR = InterpolationMode.BILINEAR
REFERENCES = {
    RAND_AUGMENT: v2.RandAugment(interpolation=LINEAR),
    TRIVIAL_AUGMENT_WIDE: v2.TrivialAugmentWide(31, LINEAR),
}


def noise(batch: int, channels: int = 3, height: int = 33, width: int = 26) -> Tensor:
    """Make noise; each image uses some of the levels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (batch, channels, height, width), dtype=torch.uint8, generator=generator)
    return images // (1 + torch.arange(batch).view(-1, 1, 1, 1) % 3).to(torch.uint8)


def torchvisions(space: Space, image: Tensor, operation: int, level: int, sign: int) -> Tensor:
    """Apply an operation by torchvision's own table and its own code."""
    reference = REFERENCES[space]
    name, (magnitudes_of, signed) = list(reference._AUGMENTATION_SPACE.items())[operation]
    magnitudes = magnitudes_of(MAGNITUDES, *image.shape[1:])
    magnitude = 0.0 if magnitudes is None else float(magnitudes[level]) * (sign if signed else 1)
    made: Tensor = reference._apply_image_or_video_transform(image, name, magnitude, LINEAR, reference._fill)
    return made


@pytest.mark.parametrize("space", REFERENCES, ids=["RandAugment", "TrivialAugmentWide"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("operation", range(OPERATIONS))
def test_operations_are_torchvisions(space: Space, channels: int, operation: int) -> None:
    levels, signs = torch.arange(MAGNITUDES).repeat(2), torch.arange(2).repeat_interleave(MAGNITUDES)
    images = noise(len(levels), channels)
    numbers = numbers_of(space, 33, 26)[operation, levels, signs]
    made = operate(images, torch.full_like(levels, operation), numbers)
    assert made.dtype == torch.uint8
    for image, level, sign, each in zip(images, levels.tolist(), signs.tolist(), made, strict=True):
        differences = (each.int() - torchvisions(space, image, operation, level, 1 - 2 * sign).int()).abs()
        # A last bit may change what is rounded or truncated; blends with grey by tenths are often whole numbers.
        assert int(differences.max()) <= 1
        assert int(differences.sum()) <= (0.15 if operation == COLOR else 0.03) * image.numel()


def test_there_are_as_many_operations_as_torchvision_has() -> None:
    assert {len(reference._AUGMENTATION_SPACE) for reference in REFERENCES.values()} == {OPERATIONS}


def test_images_of_a_batch_get_their_own_operations_and_are_left_as_they_were() -> None:
    images, operations = noise(56), torch.arange(56) % OPERATIONS
    numbers = numbers_of(TRIVIAL_AUGMENT_WIDE, 33, 26)[operations, torch.arange(56) % MAGNITUDES, torch.arange(56) % 2]
    made = operate(images, operations, numbers)
    alone = [operate(images[i : i + 1], operations[i : i + 1], numbers[i : i + 1]) for i in range(56)]
    assert torch.equal(made, torch.cat(alone))
    assert torch.equal(images, noise(56))
    assert torch.equal(operate(images.contiguous(memory_format=torch.channels_last), operations, numbers), made)


def test_rand_augment_applies_its_operations_one_after_another() -> None:
    images, sample_indices = noise(40), torch.arange(5, 45)
    made = RandomOperations(9, RAND_AUGMENT, count=2, magnitude=12)(images, sample_indices)
    for number in range(2):
        operations = integers(make_key(9, "operation", number), sample_indices, OPERATIONS)
        signs = integers(make_key(9, "sign", number), sample_indices, 2)
        images = operate(images, operations, numbers_of(RAND_AUGMENT, 33, 26)[operations, 12, signs])
    assert torch.equal(made, images)


def test_operations_magnitudes_and_signs_are_drawn_evenly_and_independently() -> None:
    """All cells of operation × magnitude × sign are equally likely, for 10,000 keys and each of two operations."""
    sample_indices = torch.arange(10_000)
    cells = []
    for number in range(2):
        operations = integers(make_key(0, "operation", number), sample_indices, OPERATIONS)
        levels = integers(make_key(0, "level", number), sample_indices, MAGNITUDES)
        signs = integers(make_key(0, "sign", number), sample_indices, 2)
        cells.append((operations, levels, signs))
        joint = ((operations * MAGNITUDES + levels) * 2 + signs).bincount(minlength=OPERATIONS * MAGNITUDES * 2)
        assert fits(joint.float(), torch.full((len(joint),), 10_000 / len(joint)))
    pairs = (cells[0][0] * OPERATIONS + cells[1][0]).bincount(minlength=OPERATIONS**2)
    assert fits(pairs.float(), torch.full((len(pairs),), 10_000 / len(pairs)))


def test_an_image_gets_other_operations_in_another_epoch_and_with_another_seed() -> None:
    images = noise(1).expand(200, -1, -1, -1)
    step = RandomOperations(0, TRIVIAL_AUGMENT_WIDE, count=1, magnitude=None)
    made = step(images, torch.arange(200))
    assert torch.equal(step(images, torch.arange(200)), made)
    for other in (
        step(images, torch.arange(200, 400)),
        RandomOperations(1, TRIVIAL_AUGMENT_WIDE, count=1, magnitude=None)(images, torch.arange(200)),
    ):
        assert int((other == made).flatten(1).all(1).sum()) < 40  # 1 of 14 × 14 draws the same identity, and so on
