"""Augmentation on a GPU gives the images that it gives on a CPU, up to rounding."""

import pytest
import torch

from accel_train.config.defaults import Augmentation
from accel_train.data.augmentation.steps import steps

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "augmentation",
    [
        Augmentation(random_crop=True, shift=2, flip=0.5, vertical_flip=0.5, rotate=20),
        Augmentation(color_jitter=(0.4, 0.4, 0.4, 0.1)),
        Augmentation(rand_augment=(2, 9)),
        Augmentation(trivial_augment=True),
        Augmentation(random_erasing=0.5),
    ],
    ids=["moves", "jitter", "rand_augment", "trivial_augment", "erasing"],
)
def test_images_equal_those_of_a_cpu(augmentation: Augmentation) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (256, 3, 32, 32), dtype=torch.uint8, generator=generator)
    made = []
    for device in (torch.device("cpu"), torch.device("cuda")):
        changed, sample_indices = images.to(device), torch.arange(256, device=device)
        for step in steps(0, augmentation, (0.5,) * 3, device):
            changed = step(changed, sample_indices)
        made.append(changed.cpu().int())
    differences = (made[0] - made[1]).abs()
    assert float((differences > 0).float().mean()) < 0.02  # rounded or truncated the other way, and then equalized
    assert float(differences.float().mean()) < 0.05
