"""The defaults of each kind of data set."""

from dataclasses import dataclass, replace
from typing import Any

from accel_train.config.import_string import is_function_name

CENTRE_SHARE = 224 / 256
"""Side of the square that is cropped from a picture, as a fraction of its shorter side: the usual evaluation crop."""
MOST_PIXELS = 2**27
"""Of a picture that is decoded: photographs of 108 megapixels have fewer. Decoding one at the limit takes 1.4 GB."""


@dataclass(frozen=True)
class Augmentation:
    """The random changes of a training image, in the order in which they are made."""

    random_crop: bool = False
    """Random resized crop (Szegedy et al. 2015, §6)."""
    crop_scale: tuple[float, ...] = (0.08, 1.0)
    """Smallest and largest area of the crop, as fractions of the image's (same section)."""
    crop_ratio: tuple[float, ...] = (3 / 4, 4 / 3)
    """Smallest and largest width / height of the crop (same section)."""
    shift: int = 0
    """Pixels of zero padding on each side, from which a window of the image's size is cropped."""
    flip: float = 0.0
    """Probability of a horizontal flip; likewise `vertical_flip`."""
    vertical_flip: float = 0.0
    rotate: float = 0.0
    """Largest rotation, degrees."""
    color_jitter: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    """Largest relative change of brightness, contrast and saturation, and of the hue as a fraction of the circle."""
    rand_augment: tuple[int, ...] = (0, 0)
    """Operations of RandAugment and their magnitude, from 0 to 30 (Cubuk et al. 2019)."""
    trivial_augment: bool = False
    """TrivialAugment Wide (Müller and Hutter 2021)."""
    random_erasing: float = 0.0
    """Probability of erasing a rectangle (Zhong et al. 2017)."""

    def __str__(self) -> str:
        parts = [
            self._crop() * self.random_crop,
            f"shift by up to {self.shift} pixel{'s' * (self.shift > 1)}" * bool(self.shift),
            "flip" * bool(self.flip) + _unusual(self.flip, 0.5),
            "vertical flip" * bool(self.vertical_flip) + _unusual(self.vertical_flip, 0.5),
            f"rotation by up to {self.rotate:g}°" * bool(self.rotate),
            f"colour jitter {' '.join(f'{each:g}' for each in self.color_jitter)}" * any(self.color_jitter),
            "RandAugment {} × magnitude {}".format(*self.rand_augment) * bool(self.rand_augment[0]),
            "TrivialAugment" * self.trivial_augment,
            f"random erasing {self.random_erasing:g}" * bool(self.random_erasing),
        ]
        return ", ".join(filter(None, parts)) or "nothing"

    def _crop(self) -> str:
        usual = Augmentation()
        scale = f" of {self.crop_scale[0]:g} to {self.crop_scale[1]:g} of the area"
        ratio = f" of ratio {self.crop_ratio[0]:.3g} to {self.crop_ratio[1]:.3g}"
        return (
            "random resized crop"
            + scale * (self.crop_scale != usual.crop_scale)
            + ratio * (self.crop_ratio != usual.crop_ratio)
        )


def _unusual(probability: float, usual: float) -> str:
    return f" with probability {probability:g}" * (probability not in (0, usual))


@dataclass(frozen=True)
class DataDefaults:
    """The defaults of a kind of data set."""

    model: str
    epochs: int
    augment: str
    light: Augmentation
    standard: Augmentation
    strong: Augmentation
    batch_size: int = 64
    warmup_epochs: float = 1.0

    def augmentation(self, level: str) -> Augmentation:
        """Return the augmentation of a level of ``--augment``."""
        levels = {"none": Augmentation(), "light": self.light, "standard": self.standard, "strong": self.strong}
        return levels[level]


_STRONG: dict[str, Any] = {"trivial_augment": True, "random_erasing": 0.1}
"""What torchvision's recipe of its IMAGENET1K_V2 weights adds to crops and flips, besides mixing images."""


def _characters(epochs: int, shift: int) -> DataDefaults:
    """Return a row without flips: a flipped 3 is not a 3, nor is a rotated 6 a 6, so `strong` rotates by up to 9°."""
    light, standard = Augmentation(shift=max(1, shift // 2)), Augmentation(shift=shift)
    return DataDefaults("cnn", epochs, "light", light, standard, replace(standard, rand_augment=(2, 9)))


def _objects(model: str, epochs: int, augment: str, shift: int) -> DataDefaults:
    light, standard = Augmentation(flip=0.5), Augmentation(shift=shift, flip=0.5)
    return DataDefaults(model, epochs, augment, light, standard, replace(standard, **_STRONG))


def _pictures(model: str, epochs: int, augment: str) -> DataDefaults:
    light, standard = Augmentation(flip=0.5), Augmentation(flip=0.5, random_crop=True)
    return DataDefaults(model, epochs, augment, light, standard, replace(standard, **_STRONG))


DATA_DEFAULTS: dict[str, DataDefaults] = {
    "digits": _characters(epochs=20, shift=1),
    "mnist": _characters(epochs=5, shift=2),
    "kmnist": _characters(epochs=10, shift=2),
    "svhn": _characters(epochs=10, shift=4),
    "fashion-mnist": _objects("cnn", epochs=10, augment="light", shift=2),
    "cifar10": _objects("resnet18", epochs=20, augment="standard", shift=4),
    "cifar100": _objects("resnet18", epochs=30, augment="standard", shift=4),
    "synthetic": _objects("cnn", epochs=5, augment="none", shift=2),
    "module": _objects("resnet18", epochs=10, augment="none", shift=2),
    "folder": _pictures("resnet18", epochs=20, augment="standard"),
}
"""By kind of data set: the name of a built-in one, synthetic, module (a user's function) or folder."""

_TRAINING_IMAGES = {
    **{"digits": 1438, "mnist": 60_000, "kmnist": 60_000, "fashion-mnist": 60_000, "svhn": 73_257},
    **dict.fromkeys(("cifar10", "cifar100"), 50_000),
}


def kind_of_data(name: str) -> tuple[str, int | None]:
    """Return the key in :data:`DATA_DEFAULTS` of a value of ``--data``, and the training images of a published set."""
    kind = name.partition(":")[0]
    if kind in DATA_DEFAULTS and kind not in ("module", "folder"):
        return kind, _TRAINING_IMAGES.get(kind)
    return "module" if is_function_name(name) else "folder", None
