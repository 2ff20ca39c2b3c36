"""A first layer whose filters are made from the images: it whitens their patches.

Shape suffixes: B images, C channels, H height, W width, P patches, D numbers of a patch.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

_SIDE = 2
"""Height and width of a patch, pixels."""
_EPS = 5e-4
"""Added to the variance of each component, so that those of noise are not made large (the paper's code)."""
_AT_ONCE = 2**18
"""Patches in memory together: those of 250 images of CIFAR-10, or of 5 with 224 pixels."""
_STEPS = 2**12
"""Values are rounded to this fraction, so that their sums are exact in any order."""


class PatchWhitening(nn.Module):
    """A 2 × 2 convolution and GELU (Jordan 2024, §3.2): from C channels to 8 C, in images that are a pixel smaller.

    Its filters are the principal components of the patches of images, scaled to a variance of 1, and their negatives.
    They are not trained, only their biases are. They are random until :meth:`fit` is called.
    """

    filters: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        filters = torch.empty(2 * channels * _SIDE**2, channels, _SIDE, _SIDE)
        nn.init.kaiming_normal_(filters)
        self.register_buffer("filters", filters)
        self.bias = nn.Parameter(torch.zeros(len(filters)))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return functional.gelu(functional.conv2d(x_BCHW, self.filters, self.bias))

    def fit(self, batches: Iterable[Tensor]) -> None:
        """Make the filters from images_BCHW as the network gets them; a batch may be of any size."""
        numbers = self.filters[0].numel()
        products_DD, count = torch.zeros(numbers, numbers, dtype=torch.float64), 0
        for images_BCHW in (part for batch in batches for part in _parts(batch)):
            patches_PD = _patches(images_BCHW)
            products_DD += patches_PD.T @ patches_PD
            count += len(patches_PD)
        variances_D, components_DD = torch.linalg.eigh(products_DD / count / _STEPS**2)
        filters_DD = (components_DD / (variances_D + _EPS).sqrt()).T.flip(0)
        largest_D = filters_DD.abs().argmax(dim=1, keepdim=True)
        filters_DD *= filters_DD.gather(1, largest_D).sign()  # eigenvectors have no sign of their own
        self.filters.copy_(torch.cat([filters_DD, -filters_DD]).view_as(self.filters))


def _parts(images_BCHW: Tensor) -> tuple[Tensor, ...]:
    """Return the images in parts whose patches fit into little memory."""
    return torch.split(images_BCHW, max(1, _AT_ONCE // images_BCHW[0, 0].numel()))


def _patches(images_BCHW: Tensor) -> Tensor:
    """Return all patches as rows of whole numbers: values in units of 1 / `_STEPS`."""
    steps_BCHW = (images_BCHW.double() * _STEPS).round()
    patches_BDP = functional.unfold(steps_BCHW, _SIDE)
    return patches_BDP.transpose(1, 2).flatten(0, 1)
