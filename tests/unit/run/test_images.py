"""Images are read and augmented as the config says; options that they do not allow are refused."""

from typing import Any

import numpy as np
import pytest
import torch
from helpers.descriptions import description
from torch import Tensor

from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.resolve import resolve
from accel_train.data.sources.base import DataSet, Ids, Source, Subset, View
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.user import ItemSource
from accel_train.errors import UserError
from accel_train.run.images import picture_view, refuse_augmentation, view_of


class Pictures:
    """A source that crops what it reads."""

    classes = ("a", "b")
    shape = (3, 8, 8)

    def __len__(self) -> int:
        return 4

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        raise AssertionError("not read")


def held(channels: int = 3, dtype: torch.dtype = torch.uint8) -> MemorySource:
    return MemorySource(("a", "b"), torch.zeros(4, channels, 8, 8, dtype=dtype), torch.arange(4) % 2)


def items(dtype: torch.dtype) -> ItemSource:
    return ItemSource(("a", "b"), [(torch.zeros(3, 8, 8, dtype=dtype), 0)] * 4)


def config(kind: str = "folder", **given: Any) -> ResolvedConfig:
    return resolve(TrainConfig(**given), {}, kind, 1000, "fp32")[0]


def data_of(source: Source) -> DataSet:
    return DataSet("module", "", source, source, (0.5,) * 3, (0.2,) * 3)


def test_view_has_the_options_of_reading() -> None:
    view = view_of(config(crop_scale="0.5,0.9", crop_ratio="1,2", eval_crop=0.9), 24)
    assert (view.size, view.random_crop) == (24, True)
    assert (view.crop_scale, view.crop_ratio) == ((0.5, 0.9), (1.0, 2.0))
    assert (view.fit, view.centre_share) == ("crop", 0.9)
    whole = view_of(config(fit="pad"), 24)
    assert (whole.random_crop, whole.fit) == (False, "pad")
    assert view_of(config("digits"), 8) == View(8, random_crop=False)


@pytest.mark.parametrize("data", ["photos", "hf:user/name"])
def test_picture_is_read_as_those_of_the_run(data: str) -> None:
    trained = config(data=data, fit="pad", max_pixels=100)
    found = picture_view(trained, description(image_size=24, data_size=96, interpolation="bicubic"))
    assert found == view_of(trained, 24, "bicubic")
    assert (found.size, found.fit, found.most_pixels) == (24, "pad", 100)


@pytest.mark.parametrize("data", ["digits", "synthetic:9,1,28,28,2", "my.data:build"])
def test_picture_is_read_whole_for_a_run_on_images_of_one_size(data: str) -> None:
    found = picture_view(config(data=data, max_pixels=100), description(image_size=32, data_size=28))
    assert (found.size, found.most_pixels) == (28, 100)
    assert found.box(28, 28, None) == (0, 0, 28, 28)
    assert found.box(60, 100, None) == (0, 20, 60, 60)


@pytest.mark.parametrize("source", [held(), Subset(held(), np.array([1, 2])), items(torch.uint8)])
@pytest.mark.parametrize(("name", "value"), [("fit", "crop"), ("fit", "pad"), ("eval_crop", 0.9)])
def test_images_of_one_size_are_not_fitted(source: Source, name: str, value: Any) -> None:
    with pytest.raises(UserError) as caught:
        refuse_augmentation(config("module", data="my:data", **{name: value}), data_of(source))
    option = "--" + name.replace("_", "-")
    assert caught.value.message == f"{option} has no effect on my:data: its images have one size"
    refuse_augmentation(config("module", **{name: value}), data_of(Pictures()))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (held(dtype=torch.float32), "floats, taken as normalised"),
        (Subset(held(dtype=torch.float32), np.array([1])), "floats, taken as normalised"),
        (items(torch.float32), "floats, taken as normalised"),
        (held(channels=4), "of 4 channels"),
    ],
)
@pytest.mark.parametrize("given", [{"color_jitter": 0.1}, {"rand_augment": "1,1"}, {"augment": "strong"}])
def test_colours_of_other_than_8_bit_grey_and_rgb_images_are_not_changed(
    source: Source, found: str, given: dict[str, Any]
) -> None:
    with pytest.raises(UserError, match=r"^the images of my:data are") as caught:
        refuse_augmentation(config("module", data="my:data", **given), data_of(source))
    assert caught.value.message == f"the images of my:data are {found}: their colours cannot be changed"
    refuse_augmentation(config("module", rotate=5, flip=0.5, random_erasing=0.5), data_of(source))


@pytest.mark.parametrize("source", [held(), held(channels=1), items(torch.uint8), Pictures()])
def test_colours_of_8_bit_images_are_changed(source: Source) -> None:
    refuse_augmentation(config("module", augment="strong"), data_of(source))
