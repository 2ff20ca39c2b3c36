"""A network and data that tests name as users name theirs."""

import os
import time

import torch
from torch import Tensor, nn

from accel_train.data.open import open_data
from accel_train.data.sources.base import Source, spread


def normalised(classes: int, channels: int) -> nn.Module:
    """Return a network with BatchNorm, dropout and a linear head."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes)),
    )


class Residual(nn.Module):
    """A residual block with BatchNorm and dropout."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()),
            *(nn.Dropout(0.2), nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)),
        )

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return torch.relu(x_BCHW + self.layers(x_BCHW))


def residual(classes: int, channels: int) -> nn.Module:
    """Return a small ResNet with BatchNorm and dropout."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        *(Residual(8), Residual(8), Residual(8)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes)),
    )


class Named(nn.Module):
    """A network that names its blocks for a pipeline; it contains BatchNorm, dropout and layers that write in place."""

    pipeline_blocks = ("stem", "first", "second", "pool", "flatten", "dropout", "head")

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        # In another order than they run: the gradient norm is made in this one.
        self.head = nn.Linear(32, classes)
        self.second, self.first = Residual(8), Residual(8)
        self.pool, self.flatten, self.dropout = nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2, inplace=True)
        stem = nn.Conv2d(channels, 8, 3, stride=2, padding=1, bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm2d(8), nn.ReLU(inplace=True))

    def forward(self, images_BCHW: Tensor) -> Tensor:
        hidden_BCHW = self.second(self.first(self.stem(images_BCHW)))
        logits_BK: Tensor = self.head(self.dropout(self.flatten(self.pool(hidden_BCHW))))
        return logits_BK


def named(classes: int, channels: int) -> nn.Module:
    return Named(classes, channels)


class Hanging(nn.Module):
    """Hangs in its third update on a rank, in the forward or backward pass that the environment names."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.here = os.environ.get("RANK") == os.environ.get("HANGS_ON") == str(rank)
        self.passes = 0

    def forward(self, x_BCHW: Tensor) -> Tensor:
        self.passes += self.training
        if self.here and self.passes == 11:
            if os.environ["HANGS_IN"] == "forward":
                time.sleep(1000)
            x_BCHW.register_hook(lambda gradient: time.sleep(1000))
        return x_BCHW


def hanging(classes: int, channels: int) -> nn.Module:
    """Return a network that hangs on rank 0 or 1 of a pipeline that is cut at module 3."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 4, 3), nn.ReLU(), Hanging(0), nn.Conv2d(4, 4, 3), Hanging(1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes)),
    )


def fashion() -> tuple[Source, Source]:
    """Return 9,600 training and 96 validation images of FashionMNIST."""
    data = open_data("fashion-mnist", directory=None, val_fraction=None, seed=0, limit=None)
    return spread(data.train, 9600), spread(data.val, 96)
