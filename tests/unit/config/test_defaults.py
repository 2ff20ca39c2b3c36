"""Each kind of data set has its defaults, and flips only what can be flipped."""

import pytest

from accel_train.config.defaults import DATA_DEFAULTS, Augmentation
from accel_train.data.open import PUBLISHED


def test_every_kind_of_data_has_a_row() -> None:
    assert set(DATA_DEFAULTS) == {*PUBLISHED, "synthetic", "module", "folder"}


def test_characters_are_not_flipped_and_objects_are() -> None:
    flipped = {kind: row.standard.flip for kind, row in DATA_DEFAULTS.items()}
    assert {kind for kind, flip in flipped.items() if not flip} == {"digits", "mnist", "kmnist", "svhn"}


@pytest.mark.parametrize("kind", DATA_DEFAULTS)
def test_level_none_does_not_augment(kind: str) -> None:
    assert DATA_DEFAULTS[kind].augmentation("none") == Augmentation(pad=0, flip=False, random_crop=False)


@pytest.mark.parametrize(
    ("augmentation", "text"),
    [
        (Augmentation(), "nothing"),
        (Augmentation(pad=1), "shift by up to 1 pixel"),
        (Augmentation(pad=4, flip=True), "shift by up to 4 pixels, flip"),
        (Augmentation(flip=True, random_crop=True), "random resized crop, flip"),
    ],
)
def test_augmentation_is_printed_as_text(augmentation: Augmentation, text: str) -> None:
    assert str(augmentation) == text
