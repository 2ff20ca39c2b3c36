"""The options of an augmentation become steps in one order, each with keys of its own."""

import pytest
import torch
from torch import Tensor

from accel_train.config.defaults import DATA_DEFAULTS, Augmentation
from accel_train.data.augmentation.steps import steps

KINDS = ("digits", "cifar10", "folder")
CPU = torch.device("cpu")
EVERYTHING = Augmentation(
    random_crop=True,
    shift=2,
    flip=0.5,
    vertical_flip=0.5,
    rotate=10,
    color_jitter=(0.4, 0.4, 0.4, 0.1),
    rand_augment=(2, 9),
    trivial_augment=True,
    random_erasing=0.5,
)


def noise(batch: int, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, channels, 16, 16), dtype=torch.uint8, generator=generator)


def augmented(images_BCHW: Tensor, sample_indices_B: Tensor, augmentation: Augmentation, seed: int = 0) -> Tensor:
    for step in steps(seed, augmentation, (0.5,) * images_BCHW.shape[1], CPU):
        images_BCHW = step(images_BCHW, sample_indices_B)
    return images_BCHW


def test_steps_are_in_the_order_of_the_options() -> None:
    names = [type(step).__name__ for step in steps(0, EVERYTHING, (0.5,) * 3, CPU)]
    assert names == [
        *("ResizedCrop", "CropAndFlip", "VerticalFlip", "Rotation", "ColorJitter"),
        *("RandomOperations", "RandomOperations", "RandomErasing"),
    ]
    assert list(steps(0, Augmentation(), (0.5,) * 3, CPU)) == []


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "augmentation", [EVERYTHING, *(DATA_DEFAULTS[kind].strong for kind in KINDS)], ids=["everything", *KINDS]
)
def test_an_image_is_augmented_by_its_sample_index_alone(augmentation: Augmentation, channels: int) -> None:
    images, sample_indices = noise(60, channels), torch.arange(60) * 977 + 3
    before = images.clone()
    together = augmented(images, sample_indices, augmentation)
    assert torch.equal(images, before)
    assert (together.dtype, together.shape) == (images.dtype, images.shape)
    order = torch.arange(60).flip(0)
    assert torch.equal(augmented(images[order], sample_indices[order], augmentation), together[order])
    parts = zip(images.split(7), sample_indices.split(7), strict=True)
    assert torch.equal(torch.cat([augmented(*part, augmentation) for part in parts]), together)
    nhwc = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(augmented(nhwc, sample_indices, augmentation), together)


def test_the_same_image_differs_between_images_epochs_and_seeds() -> None:
    images = noise(1).expand(100, -1, -1, -1)
    made = [
        augmented(images, torch.arange(100), EVERYTHING),
        augmented(images, torch.arange(100, 200), EVERYTHING),
        augmented(images, torch.arange(100), EVERYTHING, seed=1),
    ]
    assert len({bytes(image.numpy().tobytes()) for images in made for image in images}) > 280  # some are black


def test_steps_of_one_seed_draw_from_different_keys() -> None:
    """Were two keys equal, flips and erasing, say, would happen to the same images."""
    images, sample_indices = noise(1).expand(10_000, -1, -1, -1), torch.arange(10_000)
    single = [
        Augmentation(flip=0.5),
        Augmentation(vertical_flip=0.5),
        Augmentation(random_erasing=0.5),
    ]
    changed = [(augmented(images, sample_indices, each) != images).flatten(1).any(1) for each in single]
    for number, first in enumerate(changed):
        for second in changed[:number]:
            both = int((first & second).sum())
            assert both == pytest.approx(int(first.sum()) * int(second.sum()) / 10_000, abs=180)
