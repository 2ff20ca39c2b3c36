"""Losses, and sums over images that stay on the device until they are read.

Shape suffixes: B images, K classes.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from accel_train.errors import UserError

_AUXILIARY_WEIGHT = {
    "GoogLeNetOutputs": 0.3,  # Szegedy et al. 2015, §5
    "InceptionOutputs": 0.4,  # torchvision's recipe
}
TOP = 5


def split_outputs(outputs: Any) -> tuple[Tensor, list[Tensor], float]:
    """Return the logits_BK, those of auxiliary heads (GoogLeNet, Inception v3), and the weight of each head.

    Raises:
        UserError: a model returns something else.
    """
    if isinstance(outputs, Tensor):
        return outputs, [], 0.0
    kind = type(outputs).__name__
    if kind not in _AUXILIARY_WEIGHT:
        raise UserError(f"the model returns {kind}, not logits", "return one tensor of images × classes")
    main, *auxiliary = outputs
    return main, [head for head in auxiliary if head is not None], _AUXILIARY_WEIGHT[kind]


def training_loss(outputs: Any, labels_B: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the mean loss over a batch, and its logits_BK."""
    logits_BK, auxiliary, weight = split_outputs(outputs)
    loss = functional.cross_entropy(logits_BK, labels_B, label_smoothing=label_smoothing)
    for head_BK in auxiliary:
        loss = loss + weight * functional.cross_entropy(head_BK, labels_B, label_smoothing=label_smoothing)
    return loss, logits_BK


class Sums:
    """Sums over images on a device: loss, right answers, right among the best five, images.

    Losses are rounded to a multiple of a power of two, so that adding them is exact, and their sum the same in
    whatever order and on however many processes they are added.
    """

    def __init__(self, device: torch.device) -> None:
        dtype = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
        self.tensor = torch.zeros(4, dtype=dtype, device=device)

    def load(self, sums: list[float]) -> None:
        """Go on from these sums."""
        self.tensor.copy_(torch.tensor(sums, dtype=self.tensor.dtype))

    def add_batch(self, loss: Tensor, logits_BK: Tensor, labels_B: Tensor) -> None:
        """Add a training batch and its mean loss; the best five are not counted."""
        right = (logits_BK.detach().argmax(dim=1) == labels_B).sum()
        self.tensor[0] += _rounded(loss.detach().to(self.tensor.dtype) * len(labels_B))
        self.tensor[1] += right
        self.tensor[3] += len(labels_B)

    def add_images(self, logits_BK: Tensor, labels_B: Tensor, counts_B: Tensor) -> None:
        """Add those images of an evaluation batch for which `counts_B` is true."""
        losses_B = functional.cross_entropy(logits_BK, labels_B, reduction="none")
        best_B5 = logits_BK.topk(min(TOP, logits_BK.shape[1]), dim=1).indices
        hits_B5 = best_B5 == labels_B[:, None]
        columns = (
            _rounded(losses_B.to(self.tensor.dtype)),
            hits_B5[:, 0],
            hits_B5.any(dim=1),
            torch.ones_like(losses_B),
        )
        self.tensor += torch.stack([(c.to(self.tensor.dtype) * counts_B).sum() for c in columns])


def _rounded(losses: Tensor) -> Tensor:
    """Round to 2**-24: sums up to 2**29 then fit the 53 bits of a float64."""
    return torch.round(losses * 2**24) / 2**24


@dataclass(frozen=True)
class Means:
    """Means over images."""

    loss: float
    accuracy: float
    top5: float
    images: int


def means(sums: Tensor) -> Means:
    """Read sums that were added over all processes."""
    loss, right, right_among_5, images = sums.tolist()
    return Means(loss / images, right / images, right_among_5 / images, int(images))
