"""The changes of an augmentation, in their order."""

from collections.abc import Iterator

import torch

from accel_train.config.defaults import Augmentation
from accel_train.data.augmentation.affine import Rotation
from accel_train.data.augmentation.boxes import RandomErasing, ResizedCrop
from accel_train.data.augmentation.color import ColorJitter
from accel_train.data.augmentation.crop_and_flip import CropAndFlip, VerticalFlip
from accel_train.data.augmentation.operations import RAND_AUGMENT, TRIVIAL_AUGMENT_WIDE, RandomOperations
from accel_train.data.augmentation.rows import Step


def steps(seed: int, augmentation: Augmentation, mean: tuple[float, ...], device: torch.device) -> Iterator[Step]:
    """Yield the changes that are asked for; `mean` is that of each channel, as a fraction of full white."""
    if augmentation.random_crop:
        yield ResizedCrop(seed, augmentation.crop_scale, augmentation.crop_ratio)
    if augmentation.shift or augmentation.flip:
        yield CropAndFlip(seed, shift=augmentation.shift, flip=augmentation.flip, device=device)
    if augmentation.vertical_flip:
        yield VerticalFlip(seed, augmentation.vertical_flip)
    if augmentation.rotate:
        yield Rotation(seed, augmentation.rotate)
    if any(augmentation.color_jitter):
        yield ColorJitter(seed, augmentation.color_jitter)
    count, magnitude = augmentation.rand_augment
    if count:
        yield RandomOperations(seed, RAND_AUGMENT, count=count, magnitude=magnitude)
    if augmentation.trivial_augment:
        yield RandomOperations(seed, TRIVIAL_AUGMENT_WIDE, count=1, magnitude=None)
    if augmentation.random_erasing:
        yield RandomErasing(seed, augmentation.random_erasing, tuple(round(255 * each) for each in mean))
