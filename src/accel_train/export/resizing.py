"""Cropping and resizing as multiplication by a matrix, so that a graph can do it for pictures of any size.

Shape suffixes: L pixels of a side of the picture, S pixels of a side of the image.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Filter = Callable[[Tensor], Tensor]
"""The weight of a pixel, given its distance from the centre."""


def side_matrix(length: int, other: int, size: int, *, fit: str, crop: float, weigh: Filter) -> Tensor:
    """Return the matrix_SL that crops and resizes one side of a picture, as :class:`View` does.

    Its length may be symbolic, and so may be that of the other side.
    """
    own, longest = (torch.scalar_tensor(pixels, dtype=torch.float64) for pixels in (length, other))
    first, count = torch.zeros_like(own), own
    start, result = torch.zeros_like(own), torch.full_like(own, size)
    if fit == "crop":
        count = (torch.minimum(own, longest) * crop).round().clamp(min=1)
        first = ((own - count) / 2).floor()
    elif fit == "pad":
        result = (own * size / torch.maximum(own, longest)).round().clamp(min=1)
        start = ((size - result) / 2).floor()
    pixels_1L = torch.arange(length, dtype=torch.float64)[None] - first
    pixels_S1 = torch.arange(size, dtype=torch.float64)[:, None] - start
    scale = count / result
    distances_SL = pixels_1L + 0.5 - scale * (pixels_S1 + 0.5)
    weights_SL = weigh(distances_SL / scale.clamp(min=1))
    weights_SL = weights_SL * ((pixels_1L >= 0) & (pixels_1L < count))
    weights_SL = weights_SL / weights_SL.sum(dim=1, keepdim=True)
    return torch.where((pixels_S1 >= 0) & (pixels_S1 < result), weights_SL, 0).to(torch.float32)


def whole(pixels: Tensor) -> Tensor:
    """Round to 8 bits."""
    return (pixels + 0.5).floor().clamp(0, 255)


def _bilinear(distance: Tensor) -> Tensor:
    return (1 - distance.abs()).clamp(min=0)


def _bicubic(distance: Tensor) -> Tensor:
    """Return the weights of Keys 1981 for a = -1/2, as torch and Pillow have them with antialiasing."""
    distance = distance.abs()
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0))


FILTERS: dict[str, Filter] = {"bilinear": _bilinear, "bicubic": _bicubic}
