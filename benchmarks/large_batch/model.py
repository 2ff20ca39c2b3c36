"""A small residual network with BatchNorm for images of 28 pixels, fast enough on one thread to train it many times.

Shape suffixes: B images, C channels, H height, W width.
"""

import torch
from torch import Tensor, nn

_WIDTH = 16


def small_resnet(classes: int, channels: int) -> nn.Module:
    """Return a convolution of stride 2, two residual blocks and a linear layer: 73,082 parameters for 10 classes."""
    return nn.Sequential(
        _normalized(channels, _WIDTH, stride=2),
        nn.ReLU(),
        _Block(_WIDTH, 2 * _WIDTH),
        _Block(2 * _WIDTH, 4 * _WIDTH),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * _WIDTH, classes),
    )


class _Block(nn.Module):
    """The basic block of He et al. 2015 (§3.3, Figure 3) of stride 2, with a 1×1 convolution as the shortcut."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.shortcut = _normalized(channels_in, channels_out, size=1, stride=2)
        self.first = _normalized(channels_in, channels_out, stride=2)
        self.second = _normalized(channels_out, channels_out)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return torch.relu(self.shortcut(x_BCHW) + self.second(torch.relu(self.first(x_BCHW))))


def _normalized(channels_in: int, channels_out: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels_out, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))
