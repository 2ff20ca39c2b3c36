"""Our own networks, for small images.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

import re
import sys
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.models.base import Architecture, Family
from accel_train.models.whitening import PatchWhitening


def cnn(classes: int, channels: int, image_size: int) -> nn.Module:
    """Return two convolutions and two linear layers, for images of at least 4 pixels.

    It has 421,642 parameters for 28 × 28 grey pixels and 10 classes.
    """
    return nn.Sequential(
        nn.Conv2d(channels, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (image_size // 4) ** 2, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )


def mlp(classes: int, channels: int, image_size: int) -> nn.Module:
    """Return a perceptron with two hidden layers of 256 units."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * image_size**2, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, classes),
    )


def wide_resnet(classes: int, channels: int, depth: int, width: int) -> nn.Module:
    """Return the wide ResNet of Zagoruyko and Komodakis (2016, §2): (depth - 4) / 6 blocks in each stage.

    Convolutions are initialized as in He et al. 2015 (fan out), like the authors' code.

    Raises:
        UserError: the depth is not 6 × blocks + 4; the hint names the nearest depths.
    """
    blocks, rest = divmod(depth - 4, 6)
    if rest or blocks < 1:
        nearest = sorted({max(10, depth - rest), max(10, depth - rest + 6)})
        raise UserError(
            f"a wide ResNet cannot be {depth} layers deep: depth is 6 × blocks + 4",
            f"use {' or '.join(f'wide_resnet_{depth}_{width}' for depth in nearest)}",
        )
    widths = (16, 16 * width, 32 * width, 64 * width)
    layers: OrderedDict[str, nn.Module] = OrderedDict(stem=_convolution(channels, widths[0]))
    for number, stride in enumerate((1, 2, 2), start=1):
        before, after = widths[number - 1 : number + 1]
        layers[f"stage{number}"] = nn.Sequential(
            _WideBlock(before, after, stride), *(_WideBlock(after, after) for _ in range(blocks - 1))
        )
    layers |= {
        "norm": nn.BatchNorm2d(widths[-1]),
        "relu": nn.ReLU(),
        "pool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
        "linear": nn.Linear(widths[-1], classes),
    }
    return nn.Sequential(layers)


def airbench(classes: int, channels: int, widths: Sequence[int], *, whitening: bool = False) -> nn.Module:
    """Return the network of Jordan 2024 (94% on CIFAR-10 in 3.29 seconds, appendix A), with usual BatchNorm.

    `whitening` adds its first layer; images then have at least 9 pixels instead of 8. Convolutions start as identities
    as far as they have channels (§3.1).
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if whitening:
        layers["whitening"] = first = PatchWhitening(channels)
        channels = len(first.filters)
    for number, (before, after) in enumerate(pairwise((channels, *widths)), start=1):
        layers[f"group{number}"] = nn.Sequential(
            _identity(before, after),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(after),
            nn.GELU(),
            _identity(after, after),
            nn.BatchNorm2d(after),
            nn.GELU(),
        )
    return nn.Sequential(layers | {"pool": _GlobalMax(), "linear": nn.Linear(widths[-1], classes, bias=False)})


def find(name: str) -> Architecture | None:
    """Return one of these networks by name; it may end in depth and width, or in the widths of three groups."""
    if wide := re.fullmatch(r"wide_resnet_(\d{1,4})_([1-9]\d{0,3})", name):
        return _wide_resnet(depth=int(wide[1]), width=int(wide[2]))
    if fast := re.fullmatch(r"airbench(94)?_([1-9]\d{0,3})_([1-9]\d{0,3})_([1-9]\d{0,3})", name):
        return _airbench(*map(int, fast.groups()[1:]), whitening=bool(fast[1]))
    return _NETWORKS.get(name)


def _airbench(*widths: int, whitening: bool = False) -> Architecture:
    return Architecture(
        lambda classes, channels, image_size: airbench(classes, channels, widths, whitening=whitening),
        sizes=range(9 if whitening else 8, sys.maxsize),
    )


def _wide_resnet(depth: int, width: int) -> Architecture:
    return Architecture(lambda classes, channels, image_size: wide_resnet(classes, channels, depth, width))


_NETWORKS = {
    "cnn": Architecture(cnn, sizes=range(4, sys.maxsize)),
    "mlp": Architecture(mlp),
    "airbench": _airbench(64, 256, 256),
    "airbench94": _airbench(64, 256, 256, whitening=True),
    "wide_resnet": _wide_resnet(depth=10, width=10),
}
FAMILY = Family("cnn, mlp, airbench, airbench94, wide_resnet", names=lambda: tuple(_NETWORKS), find=find)


class _WideBlock(nn.Module):
    """Two 3×3 convolutions, each after BatchNorm and ReLU, with a shortcut.

    If the shape changes, the shortcut is a 1×1 convolution of the activated input (authors' code).
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int = 1) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.conv1 = _convolution(channels_in, channels_out, stride=stride)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.conv2 = _convolution(channels_out, channels_out)
        changes = stride != 1 or channels_in != channels_out
        self.shortcut = _convolution(channels_in, channels_out, size=1, stride=stride) if changes else None

    def forward(self, x_BCHW: Tensor) -> Tensor:
        active_BCHW = torch.relu(self.norm1(x_BCHW))
        kept_BCHW = x_BCHW if self.shortcut is None else self.shortcut(active_BCHW)
        hidden_BCHW = torch.relu(self.norm2(self.conv1(active_BCHW)))
        added_BCHW: Tensor = self.conv2(hidden_BCHW)
        return kept_BCHW + added_BCHW


class _GlobalMax(nn.Module):
    """The largest value of each channel, divided by 9 so that first predictions are cautious (Jordan's code)."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return x_BCHW.amax((2, 3)) / 9


def _identity(channels_in: int, channels_out: int) -> nn.Conv2d:
    convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
    nn.init.dirac_(convolution.weight[:channels_in].detach())
    return convolution


def _convolution(channels_in: int, channels_out: int, size: int = 3, stride: int = 1) -> nn.Conv2d:
    convolution = nn.Conv2d(channels_in, channels_out, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution
