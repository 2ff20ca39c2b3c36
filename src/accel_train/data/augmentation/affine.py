"""Moves the pixels of each image by a matrix of its own.

Shape suffixes: B images, C channels, H height, W width, P pixels of an image; 6 for the rows of a matrix.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.rng import fractions, make_key

Matrix = tuple[float, float, float, float, float, float]
"""Rows a, b, c and d, e, f: pixel (x, y) is taken from (ax + by + c, dx + ey + f); (0, 0) is the image's centre."""


def translation(right: float, down: float) -> Matrix:
    return 1.0, 0.0, -right, 0.0, 1.0, -down


def rotation(degrees: float) -> Matrix:
    """Return the matrix of a counterclockwise rotation."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return cos, -sin, 0.0, sin, cos, 0.0


def shear_x(slope: float, height: int) -> Matrix:
    """Return the matrix that moves each row left by `slope` times its distance from the top; the top row stays."""
    return 1.0, slope, slope * height / 2, 0.0, 1.0, 0.0


def shear_y(slope: float, width: int) -> Matrix:
    """Return the matrix that moves each column up by `slope` times its distance from the left."""
    return 1.0, 0.0, 0.0, slope, 1.0, slope * width / 2


def affine(images_BCHW: Tensor, matrices_B6: Tensor) -> Tensor:
    """Return images moved by matrices in float32, interpolated linearly; what was outside is 0.

    It is torchvision's affine transform (bilinear, without `fill`), which takes one matrix for all images.
    """
    height, width = images_BCHW.shape[2:]
    half = torch.tensor([0.5 * width, 0.5 * height], device=images_BCHW.device)
    scaled_B32 = matrices_B6.view(-1, 2, 3).transpose(1, 2) / half
    places_P3 = _places(height, width, images_BCHW.device)
    grid_BHW2 = places_P3.expand(len(images_BCHW), -1, -1).bmm(scaled_B32).view(-1, height, width, 2)
    moved_BCHW = functional.grid_sample(images_BCHW.to(torch.float32), grid_BHW2, "bilinear", "zeros", False)
    return moved_BCHW if images_BCHW.is_floating_point() else moved_BCHW.round_().to(images_BCHW.dtype)


def _places(height: int, width: int, device: torch.device) -> Tensor:
    """Return x, y and 1 for each pixel."""
    x_W = torch.linspace((1 - width) / 2, (width - 1) / 2, width, device=device)
    y_H = torch.linspace((1 - height) / 2, (height - 1) / 2, height, device=device)
    y_HW, x_HW = torch.meshgrid(y_H, x_W, indexing="ij")
    return torch.stack([x_HW, y_HW, torch.ones_like(x_HW)], dim=2).view(1, -1, 3)


class Rotation:
    """Rotates each image by up to `degrees` to either side."""

    def __init__(self, seed: int, degrees: float) -> None:
        self._key = make_key(seed, "rotate")
        self._most = math.radians(degrees)

    def __call__(self, images_BCHW: Tensor, sample_indices_B: Tensor) -> Tensor:
        angles_B = self._most * (2 * fractions(self._key, sample_indices_B) - 1)
        cos_B, sin_B, none_B = angles_B.cos(), angles_B.sin(), torch.zeros_like(angles_B)
        return affine(images_BCHW, torch.stack([cos_B, -sin_B, none_B, sin_B, cos_B, none_B], dim=1))
