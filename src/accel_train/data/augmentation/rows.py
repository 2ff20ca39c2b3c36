"""Changes some of the images of a batch.

Shape suffixes: B images, N chosen images, C channels, H height, W width.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]
"""Returns images_BCHW changed as their sample indices_B decide; leaves those given as they are."""


def change_rows(images_BCHW: Tensor, chosen_B: Tensor, change: Callable[..., Tensor], *values_B: Tensor) -> Tensor:
    """Return the images with the chosen ones replaced by `change(images, *values)`; those given may be written to.

    `change` treats each image by itself. On a GPU it gets all images: the number of the chosen ones is not known to the
    CPU, which would have to wait for it.
    """
    change_them = change_chosen if images_BCHW.device.type == "cpu" else change_all
    return change_them(images_BCHW, chosen_B, change, *values_B)


def change_chosen(images_BCHW: Tensor, chosen_B: Tensor, change: Callable[..., Tensor], *values_B: Tensor) -> Tensor:
    """Compute the chosen images only."""
    rows_N = chosen_B.nonzero().flatten()
    if not len(rows_N):
        return images_BCHW
    changed_NCHW = change(images_BCHW.index_select(0, rows_N), *(each.index_select(0, rows_N) for each in values_B))
    return images_BCHW.index_copy_(0, rows_N, changed_NCHW)


def change_all(images_BCHW: Tensor, chosen_B: Tensor, change: Callable[..., Tensor], *values_B: Tensor) -> Tensor:
    """Compute all images, and take the chosen ones."""
    return torch.where(chosen_B.view(-1, 1, 1, 1), change(images_BCHW, *values_B), images_BCHW)
