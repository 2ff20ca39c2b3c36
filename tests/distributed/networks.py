"""Small networks that tests name as users name theirs."""

from torch import nn


def normalised(classes: int, channels: int) -> nn.Module:
    """Return a network with BatchNorm, dropout and a linear head."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes)),
    )
