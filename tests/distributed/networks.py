"""A network and data that tests name as users name theirs."""

from torch import nn

from accel_train.data.open import open_data
from accel_train.data.sources.base import Source, spread


def normalised(classes: int, channels: int) -> nn.Module:
    """Return a network with BatchNorm, dropout and a linear head."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes)),
    )


def fashion() -> tuple[Source, Source]:
    """Return 9,600 training and 96 validation images of FashionMNIST."""
    data = open_data("fashion-mnist", directory=None, val_fraction=None, seed=0, limit=None)
    return spread(data.train, 9600), spread(data.val, 96)
