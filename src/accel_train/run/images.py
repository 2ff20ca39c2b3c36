"""The images that a model is given: how they are read, and how they are transformed on the device."""

from dataclasses import replace
from typing import Protocol

import torch

from accel_train.checkpoints.run_folder import Description
from accel_train.config.defaults import CENTRE_SHARE
from accel_train.config.options import ResolvedConfig
from accel_train.data.open import is_path
from accel_train.data.sources.base import DataSet, Source, Subset, View
from accel_train.data.sources.memory import in_memory
from accel_train.data.sources.names import is_hub_name
from accel_train.data.sources.user import ItemSource
from accel_train.data.transforms import ImageTransform
from accel_train.errors import UserError
from accel_train.models.base import Interpolation
from accel_train.rng import make_key


def view_of(config: ResolvedConfig, size: int, interpolation: Interpolation = "bilinear") -> View:
    """Return how pictures are read: in training those with keys, in evaluation those without."""
    augmentation = config.augmentation
    return View(
        size,
        random_crop=augmentation.random_crop,
        crop_scale=augmentation.crop_scale,
        crop_ratio=augmentation.crop_ratio,
        fit=config.fit or "crop",
        centre_share=config.eval_crop or CENTRE_SHARE,
        interpolation=interpolation,
        most_pixels=config.max_pixels,
    )


def picture_view(config: ResolvedConfig, description: Description) -> View:
    """Return how a picture file is read for a model, whatever its size, as the images that it was evaluated on were.

    Those of one size were not cropped: such a picture is then read as it is, a larger one is scaled to their size.
    """
    view = view_of(config, description.image_size, description.interpolation)
    if is_path(config.data) or is_hub_name(config.data):
        return view
    return replace(view, size=description.data_size, fit="crop", centre_share=1.0)


class ModelInput(Protocol):
    """What a model takes."""

    @property
    def channels(self) -> int: ...

    @property
    def image_size(self) -> int: ...


def training_transform(
    config: ResolvedConfig, data: DataSet, model: ModelInput, *, dtype: torch.dtype, device: torch.device
) -> ImageTransform:
    """Return the transform of images as read; it crops those that their source does not crop."""
    augmentation = config.augmentation
    crops = augmentation.random_crop and _has_one_size(data.train)
    return ImageTransform(
        seed=make_key(config.seed, "augment"),
        augmentation=replace(augmentation, random_crop=crops),
        channels=model.channels,
        size=model.image_size,
        mean=data.mean,
        std=data.std,
        interpolation=data.interpolation,
        dtype=dtype,
        device=device,
    )


def refuse_augmentation(config: ResolvedConfig, data: DataSet) -> None:
    """Refuse options that these images do not allow.

    Raises:
        UserError: colours of normalised or many-channel images are to be changed, or images of one size to be fitted.
    """
    if not _has_one_size(data.train):
        return
    for name in ("fit", "eval_crop"):
        if getattr(config, name) is not None:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} has no effect on {config.data}: its images have one size", "leave it out")
    changed = config.augmentation
    if not (any(changed.color_jitter) or changed.rand_augment[0] or changed.trivial_augment):
        return
    images_BCHW = data.train.read([0], None, view_of(config, 1))[0]
    channels = images_BCHW.shape[1]
    if images_BCHW.is_floating_point() or channels not in (1, 3):
        found = "floats, taken as normalised" if images_BCHW.is_floating_point() else f"of {channels} channels"
        raise UserError(
            f"the images of {config.data} are {found}: their colours cannot be changed",
            "leave out --color-jitter, --rand-augment, --trivial-augment and --augment strong, "
            "or give 8-bit images of one or three channels",
        )


def _has_one_size(source: Source) -> bool:
    """Return whether a source ignores the view: its images are as they are."""
    if isinstance(source, Subset):
        return _has_one_size(source.source)
    return in_memory(source) or isinstance(source, ItemSource)
