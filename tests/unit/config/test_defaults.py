"""Each kind of data set has its defaults, and flips only what can be flipped."""

import pytest

from accel_train.config.defaults import DATA_DEFAULTS, Augmentation, kind_of_data
from accel_train.data.open import PUBLISHED, open_data


def test_every_kind_of_data_has_a_row() -> None:
    assert set(DATA_DEFAULTS) == {*PUBLISHED, "synthetic", "module", "folder"}


def test_characters_are_not_flipped_and_objects_are() -> None:
    flipped = {kind: row.standard.flip for kind, row in DATA_DEFAULTS.items()}
    assert {kind for kind, flip in flipped.items() if not flip} == {"digits", "mnist", "kmnist", "svhn"}


@pytest.mark.parametrize("kind", DATA_DEFAULTS)
def test_each_level_changes_at_least_what_the_one_before_it_changes(kind: str) -> None:
    light, standard, strong = (DATA_DEFAULTS[kind].augmentation(level) for level in ("light", "standard", "strong"))
    assert light.flip <= standard.flip <= strong.flip
    assert light.shift <= standard.shift <= strong.shift
    assert standard.random_crop == strong.random_crop >= light.random_crop
    assert strong.trivial_augment or strong.rand_augment == (2, 9)


@pytest.mark.parametrize("kind", DATA_DEFAULTS)
def test_level_none_does_not_augment(kind: str) -> None:
    assert DATA_DEFAULTS[kind].augmentation("none") == Augmentation()


@pytest.mark.parametrize(
    ("augmentation", "text"),
    [
        (Augmentation(), "nothing"),
        (Augmentation(shift=1), "shift by up to 1 pixel"),
        (Augmentation(shift=4, flip=0.5), "shift by up to 4 pixels, flip"),
        (Augmentation(flip=0.5, random_crop=True), "random resized crop, flip"),
        (Augmentation(flip=1.0), "flip with probability 1"),
        (Augmentation(crop_scale=(0.5, 1.0)), "nothing"),
        (
            Augmentation(random_crop=True, crop_scale=(0.5, 1.0), crop_ratio=(1.0, 1.5)),
            "random resized crop of 0.5 to 1 of the area of ratio 1 to 1.5",
        ),
        (
            Augmentation(vertical_flip=0.25, rotate=12.5, color_jitter=(0.4, 0.4, 0.4, 0.1)),
            "vertical flip with probability 0.25, rotation by up to 12.5°, colour jitter 0.4 0.4 0.4 0.1",
        ),
        (
            Augmentation(rand_augment=(2, 9), trivial_augment=True, random_erasing=0.1),
            "RandAugment 2 × magnitude 9, TrivialAugment, random erasing 0.1",
        ),
    ],
)
def test_augmentation_is_printed_as_text(augmentation: Augmentation, text: str) -> None:
    assert str(augmentation) == text


def test_training_images_of_published_data_are_known() -> None:
    assert {name: kind_of_data(name)[0] for name in PUBLISHED} == {name: name for name in PUBLISHED}
    assert min(images or 0 for _, images in map(kind_of_data, PUBLISHED)) == 1438
    for name in ("digits", "fashion-mnist"):
        data = open_data(name, directory=None, val_fraction=None, seed=0, limit=None)
        assert kind_of_data(name) == (data.kind, len(data.train))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("photos", "folder"), ("folder", "folder"), ("hf:x/y", "folder"), ("my.data:build", "module")],
)
def test_images_of_other_data_are_to_be_counted(name: str, kind: str) -> None:
    assert kind_of_data(name) == (kind, None)
    assert kind_of_data("synthetic:100,1,8,8,2") == ("synthetic", None)
