"""Sums of losses and correct predictions that stay on the device until they are read.

Shape suffixes: B images, K classes, M micro-batches.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

TOP = 5
_TOTALS = 4
"""Sums over the images of all classes."""
_MAX_PENDING = 2**15
"""Logits of training batches that are added at once: with small models the overhead of each addition shows."""


class Sums:
    """Sums over images on a device: loss, top-1 hits, top-5 hits, images; by class images, then top-1 hits.

    Training batches are queued and added several at a time.

    Losses are rounded to a multiple of a power of two. Adding them is then exact: their sum is bit-identical in any
    order and on any number of processes.
    """

    def __init__(self, device: torch.device, classes: int = 0) -> None:
        """Make sums for evaluation batches of as many classes; those of training batches are not by class."""
        dtype = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
        self._tensor = torch.zeros(_TOTALS + 2 * classes, dtype=dtype, device=device)
        self._loaded = self._tensor.clone()
        self._pending: list[tuple[Tensor, Tensor, Tensor]] = []
        self._batches = 0
        self._finite = torch.zeros((), dtype=torch.int64, device=device)

    @property
    def tensor(self) -> Tensor:
        """The sums, shape (4 + 2 × classes,)."""
        self._add_pending()
        return self._tensor

    @property
    def since_load(self) -> Tensor:
        """The sums of what was added after the last :meth:`load` or :meth:`clear`, in the same shape."""
        return self.tensor - self._loaded

    def load(self, sums: list[float]) -> None:
        """Continue from these sums."""
        self.tensor.copy_(torch.tensor(sums, dtype=self._tensor.dtype))
        self._loaded.copy_(self._tensor)

    def clear(self) -> None:
        """Start from zero."""
        self.load([0.0] * len(self._tensor))

    def add_batch(self, loss: Tensor, logits_BK: Tensor, labels_B: Tensor) -> None:
        """Add a training batch and its mean loss; top-5 hits are not counted. All batches have the same size."""
        self._pending.append((loss.detach(), logits_BK.detach(), labels_B))
        self._batches += 1
        if len(self._pending) * logits_BK.numel() >= _MAX_PENDING:
            self._add_pending()

    def take_finite(self) -> tuple[Tensor, int]:
        """Return the number of batches before the first non-finite loss, and of all batches, since the last call."""
        self._add_pending()
        finite, batches = self._finite.clone(), self._batches
        self._finite.zero_()
        self._batches = 0
        return finite, batches

    def _add_pending(self) -> None:
        if not self._pending:
            return
        losses_M, logits_MBK, labels_MB = map(torch.stack, zip(*self._pending, strict=True))
        self._pending.clear()
        losses_M = _rounded(losses_M.to(self._tensor.dtype) * labels_MB.shape[1])
        sums_M = losses_M.cumsum(0) + self._tensor[0]  # non-finite from the first non-finite loss on
        self._finite += (sums_M - sums_M == 0).sum()
        self._tensor[0] += losses_M.sum()
        self._tensor[1] += (logits_MBK.argmax(dim=2) == labels_MB).sum()
        self._tensor[3] += labels_MB.numel()

    def add_images(self, logits_BK: Tensor, labels_B: Tensor, counts_B: Tensor) -> None:
        """Add the images of an evaluation batch for which `counts_B` is true."""
        losses_B = functional.cross_entropy(logits_BK, labels_B, reduction="none")
        best_B5 = logits_BK.topk(min(TOP, logits_BK.shape[1]), dim=1).indices
        hits_B5 = best_B5 == labels_B[:, None]
        columns = (
            _rounded(losses_B.to(self._tensor.dtype)),
            hits_B5[:, 0],
            hits_B5.any(dim=1),
            torch.ones_like(losses_B),
        )
        columns_4B = torch.stack([column.to(self._tensor.dtype) * counts_B for column in columns])
        self._tensor[:_TOTALS] += columns_4B.sum(dim=1)
        images_K, hits_K = self._tensor[_TOTALS:].chunk(2)
        images_K.index_add_(0, labels_B, columns_4B[3])
        hits_K.index_add_(0, labels_B, columns_4B[1])


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
    balanced_accuracy: float | None = None
    """Mean accuracy of the classes that have images; None of training images."""


def means(sums: Tensor) -> Means:
    """Read sums that were added over all processes."""
    loss, hits, top5_hits, images, *by_class = sums.tolist()
    images_K, hits_K = by_class[: len(by_class) // 2], by_class[len(by_class) // 2 :]
    accuracies = [right / of_class for of_class, right in zip(images_K, hits_K, strict=True) if of_class]
    balanced = sum(accuracies) / len(accuracies) if accuracies else None
    return Means(loss / images, hits / images, top5_hits / images, int(images), balanced)
