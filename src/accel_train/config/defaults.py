"""The defaults of each kind of data set."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Augmentation:
    """The random changes of a training image."""

    pad: int = 0
    """Pixels of zero padding on each side, from which a window of the image's size is cropped."""
    flip: bool = False
    """Flip horizontally with probability 1/2."""
    random_crop: bool = False
    """Random resized crop (Szegedy et al. 2015, §6)."""

    def __str__(self) -> str:
        parts = [
            f"shift by up to {self.pad} pixel{'s' * (self.pad > 1)}" * bool(self.pad),
            "random resized crop" * self.random_crop,
            "flip" * self.flip,
        ]
        return ", ".join(filter(None, parts)) or "nothing"


@dataclass(frozen=True)
class DataDefaults:
    """The defaults of a kind of data set."""

    model: str
    epochs: int
    augment: str
    light: Augmentation
    standard: Augmentation
    batch_size: int = 64
    warmup_epochs: float = 1.0

    def augmentation(self, level: str) -> Augmentation:
        """Return the augmentation of a level of ``--augment``."""
        return {"none": Augmentation(), "light": self.light, "standard": self.standard}[level]


def _characters(epochs: int, pad: int) -> DataDefaults:
    """Return a row without flips: a flipped 3 is not a 3."""
    return DataDefaults("cnn", epochs, "light", Augmentation(pad=max(1, pad // 2)), Augmentation(pad=pad))


def _objects(model: str, epochs: int, augment: str, pad: int) -> DataDefaults:
    return DataDefaults(model, epochs, augment, Augmentation(flip=True), Augmentation(pad=pad, flip=True))


DATA_DEFAULTS: dict[str, DataDefaults] = {
    "digits": _characters(epochs=20, pad=1),
    "mnist": _characters(epochs=5, pad=2),
    "kmnist": _characters(epochs=10, pad=2),
    "svhn": _characters(epochs=10, pad=4),
    "fashion-mnist": _objects("cnn", epochs=10, augment="light", pad=2),
    "cifar10": _objects("resnet18", epochs=20, augment="standard", pad=4),
    "cifar100": _objects("resnet18", epochs=30, augment="standard", pad=4),
    "synthetic": _objects("cnn", epochs=5, augment="none", pad=2),
    "module": _objects("resnet18", epochs=10, augment="none", pad=2),
    "folder": DataDefaults(
        "resnet18", 20, "standard", Augmentation(flip=True), Augmentation(flip=True, random_crop=True)
    ),
}
"""By kind of data set: the name of a built-in one, synthetic, module (a user's function) or folder."""
