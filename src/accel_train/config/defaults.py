"""What a run uses where its user chose nothing, by data set and by model."""

from dataclasses import dataclass
from typing import Any

from accel_train.config.options import TrainConfig


@dataclass(frozen=True)
class Augmentation:
    """What may happen to a training image."""

    pad: int = 0
    """Zero padding in pixels around the image, out of which a window of the image's size is cut."""
    flip: bool = False
    """Mirror left and right with probability 1/2."""
    random_crop: bool = False
    """Read a random part of the picture, resized (Szegedy et al. 2015, §6)."""

    def __str__(self) -> str:
        parts = [
            f"shift by up to {self.pad} pixel{'s' * (self.pad > 1)}" * bool(self.pad),
            "random resized crop" * self.random_crop,
            "flip" * self.flip,
        ]
        return ", ".join(filter(None, parts)) or "nothing"


@dataclass(frozen=True)
class DataDefaults:
    """What a data set uses unless told otherwise."""

    model: str
    epochs: int
    augment: str
    light: Augmentation
    standard: Augmentation
    batch_size: int = 64
    warmup_epochs: float = 1.0

    def augmentation(self, level: str) -> Augmentation:
        """Return what a level of ``--augment`` means here."""
        return {"none": Augmentation(), "light": self.light, "standard": self.standard}[level]


def _characters(epochs: int, pad: int) -> DataDefaults:
    """Characters are never mirrored: a flipped 3 is no 3."""
    return DataDefaults("cnn", epochs, "light", Augmentation(pad=max(1, pad // 2)), Augmentation(pad=pad))


def _things(model: str, epochs: int, augment: str, pad: int) -> DataDefaults:
    return DataDefaults(model, epochs, augment, Augmentation(flip=True), Augmentation(pad=pad, flip=True))


DATA_DEFAULTS: dict[str, DataDefaults] = {
    "digits": _characters(epochs=20, pad=1),
    "mnist": _characters(epochs=5, pad=2),
    "kmnist": _characters(epochs=10, pad=2),
    "svhn": _characters(epochs=10, pad=4),
    "fashion-mnist": _things("cnn", epochs=10, augment="light", pad=2),
    "cifar10": _things("resnet18", epochs=20, augment="standard", pad=4),
    "cifar100": _things("resnet18", epochs=30, augment="standard", pad=4),
    "synthetic": _things("cnn", epochs=5, augment="none", pad=2),
    "module": _things("resnet18", epochs=10, augment="none", pad=2),
    "folder": DataDefaults(
        "resnet18", 20, "standard", Augmentation(flip=True), Augmentation(flip=True, random_crop=True)
    ),
}

_SGD_BASE_LR = {"cnn": 0.2, "mlp": 0.2, "alexnet": 0.01, "vgg": 0.01, "squeezenet": 0.01}
"""By start of the model's name. Networks without BatchNorm need the small ones (torchvision's recipes)."""
_RESNET_BASE_LR = 0.1  # Goyal et al. 2017, §2.1, at 256 images per update
_ADAMW_BASE_LR = 1e-3
_LEAST_UPDATES = 8  # an epoch of fewer says little; small data sets get smaller batches
_EPOCHS_PER_WARMUP = 5  # at least: a short run warms up for less than the data set's usual
_LR_BASE_BATCH = 256
_WEIGHT_DECAY = {"sgd": 5e-4, "adamw": 0.05}
_SCALING = {"sgd": "linear", "adamw": "sqrt"}


def with_defaults(
    config: TrainConfig, origins: dict[str, str], data_kind: str, train_images: int
) -> tuple[TrainConfig, dict[str, str]]:
    """Return the config with its open choices made, and the origin of each of those.

    None of them depends on the number of processes.
    """
    table = DATA_DEFAULTS[data_kind]
    model = config.model or table.model
    epochs = config.epochs or table.epochs
    scaling = config.lr_scaling or ("none" if config.lr is not None else _SCALING[config.optimizer])
    for_data, for_optimizer = f"default for {data_kind}", f"default for {config.optimizer}"
    choices: dict[str, tuple[Any, str]] = {
        "model": (model, for_data),
        "epochs": (epochs, for_data),
        "augment": (table.augment, for_data),
        "batch_size": (_batch_size(config, table, train_images), f"{for_data} of {train_images:,} images"),
        "warmup_epochs": (min(table.warmup_epochs, epochs / _EPOCHS_PER_WARMUP), for_data),
        "lr": (_base_lr(model, config.optimizer), f"default for {model} with {config.optimizer}"),
        "lr_scaling": (scaling, "because --lr was given" if config.lr is not None else for_optimizer),
        "weight_decay": (_WEIGHT_DECAY[config.optimizer], for_optimizer),
    }
    if scaling != "none":
        choices["lr_base_batch"] = (_LR_BASE_BATCH, "default")
    if config.schedule == "step":
        choices["gamma"] = (0.1, "default")
    made = {name: choice for name, choice in choices.items() if getattr(config, name) is None}
    return (
        config.model_copy(update={name: value for name, (value, _) in made.items()}),
        origins | {name: origin for name, (_, origin) in made.items()},
    )


def _batch_size(config: TrainConfig, table: DataDefaults, train_images: int) -> int:
    if config.global_batch_size is not None:
        return max(n for n in range(1, table.batch_size + 1) if config.global_batch_size % n == 0)
    size = table.batch_size
    while size > 2 and train_images // size < _LEAST_UPDATES:
        size //= 2
    return size


def _base_lr(model: str, optimizer: str) -> float:
    if optimizer == "adamw":
        return _ADAMW_BASE_LR
    plain = not model.endswith("_bn")
    return next((lr for start, lr in _SGD_BASE_LR.items() if model.startswith(start) and plain), _RESNET_BASE_LR)
