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
_MOST_WAITING = 2**15
"""Logits of training batches that are added at once: on small models the time of an addition shows."""


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

    Training batches wait until some can be added together.

    Losses are rounded to a multiple of a power of two, so that adding them is exact, and their sum the same in
    whatever order and on however many processes they are added.
    """

    def __init__(self, device: torch.device) -> None:
        dtype = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
        self._tensor = torch.zeros(4, dtype=dtype, device=device)
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self._batches = 0
        self._finite = torch.zeros((), dtype=torch.int64, device=device)

    @property
    def tensor(self) -> Tensor:
        """The sums, shape (4,)."""
        self._add_waiting()
        return self._tensor

    def load(self, sums: list[float]) -> None:
        """Go on from these sums."""
        self.tensor.copy_(torch.tensor(sums, dtype=self._tensor.dtype))

    def add_batch(self, loss: Tensor, logits_BK: Tensor, labels_B: Tensor) -> None:
        """Add a training batch and its mean loss; the best five are not counted. All batches have the same size."""
        self._waiting.append((loss.detach(), logits_BK.detach(), labels_B))
        self._batches += 1
        if len(self._waiting) * logits_BK.numel() >= _MOST_WAITING:
            self._add_waiting()

    def take_finite(self) -> tuple[Tensor, int]:
        """Return how many batches were added before the first loss that is not finite, and how many in all.

        Counted since this was last asked for.
        """
        self._add_waiting()
        finite, batches = self._finite.clone(), self._batches
        self._finite.zero_()
        self._batches = 0
        return finite, batches

    def _add_waiting(self) -> None:
        if not self._waiting:
            return
        losses_M, logits_MBK, labels_MB = map(torch.stack, zip(*self._waiting, strict=True))
        self._waiting.clear()
        losses_M = _rounded(losses_M.to(self._tensor.dtype) * labels_MB.shape[1])
        sums_M = losses_M.cumsum(0) + self._tensor[0]  # from the first loss on that is not finite, none is
        self._finite += (sums_M - sums_M == 0).sum()
        self._tensor[0] += losses_M.sum()
        self._tensor[1] += (logits_MBK.argmax(dim=2) == labels_MB).sum()
        self._tensor[3] += labels_MB.numel()

    def add_images(self, logits_BK: Tensor, labels_B: Tensor, counts_B: Tensor) -> None:
        """Add those images of an evaluation batch for which `counts_B` is true."""
        losses_B = functional.cross_entropy(logits_BK, labels_B, reduction="none")
        best_B5 = logits_BK.topk(min(TOP, logits_BK.shape[1]), dim=1).indices
        hits_B5 = best_B5 == labels_B[:, None]
        columns = (
            _rounded(losses_B.to(self._tensor.dtype)),
            hits_B5[:, 0],
            hits_B5.any(dim=1),
            torch.ones_like(losses_B),
        )
        self._tensor += torch.stack([(c.to(self._tensor.dtype) * counts_B).sum() for c in columns])


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
