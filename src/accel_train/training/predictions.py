"""Collects the prediction for each image while a model is evaluated.

Shape suffixes: B images of a batch, N images of a split, K classes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from accel_train.data.sampler import PADDING
from accel_train.data.worker_batches import Batch
from accel_train.distributed import process_group
from accel_train.metrics.predictions import Predictions
from accel_train.training.metrics import TOP


class PredictionRows:
    """The rows of this process, one an image; they stay on the device until they are gathered."""

    def __init__(self) -> None:
        self._integers: list[Tensor] = []
        """Of each batch: image id, label, prediction and rank of the label, shape (4, B)."""
        self._probabilities: list[Tensor] = []
        """Of each batch: those of prediction and label, shape (2, B)."""

    def add(self, logits_BK: Tensor | None, batch: Batch) -> None:
        """Add a batch; without logits another process has them, and this one adds rows that do not count."""
        ids_B, labels_B = batch.sample_indices_B, batch.labels_B
        if logits_BK is None:
            self._integers.append(torch.full((4, len(ids_B)), PADDING, device=ids_B.device))
            self._probabilities.append(torch.zeros(2, len(ids_B), device=ids_B.device))
            return
        predicted_B, ranks_B = _ranked(logits_BK, labels_B)
        probabilities_BK = logits_BK.softmax(dim=1)
        both_B2 = probabilities_BK.gather(1, torch.stack((predicted_B, labels_B), dim=1))
        self._integers.append(torch.stack((ids_B, labels_B, predicted_B, ranks_B)))
        self._probabilities.append(both_B2.T.float())

    def gathered(self, group: ProcessGroup | None, classes: Sequence[str], names: Sequence[str]) -> Predictions:
        """Collective: return the rows of all processes in the order of the images; `names` are those of all images."""
        integers_4N, probabilities_2N = (
            torch.cat(process_group.exchange_equal(group, torch.cat(own, dim=1).cpu()), dim=1)
            for own in (self._integers, self._probabilities)
        )
        counted_N = (integers_4N[0] != PADDING).nonzero()[:, 0]
        order_N = counted_N[integers_4N[0, counted_N].argsort()]
        _, labels_N, predicted_N, ranks_N = integers_4N[:, order_N].numpy()
        confidences_N, label_probabilities_N = probabilities_2N[:, order_N].numpy()
        return Predictions(
            classes=tuple(classes),
            images=tuple(names),
            labels_N=labels_N,
            predicted_N=predicted_N,
            confidences_N=confidences_N,
            label_probabilities_N=label_probabilities_N,
            label_ranks_N=ranks_N,
        )


def _ranked(logits_BK: Tensor, labels_B: Tensor) -> tuple[Tensor, Tensor]:
    """Return the predicted classes and the ranks of the labels, from 1 on.

    Among equal logits those of :class:`Sums` come first, so that both count the same hits; then those of lower index.
    """
    classes = torch.arange(logits_BK.shape[1], device=logits_BK.device)
    best_B5 = logits_BK.topk(min(TOP, logits_BK.shape[1]), dim=1).indices
    of_labels_B1 = logits_BK.gather(1, labels_B[:, None])
    before_BK = (logits_BK > of_labels_B1) | ((logits_BK == of_labels_B1) & (classes < labels_B[:, None]))
    hits_B5 = best_B5 == labels_B[:, None]
    outside_B = (before_BK.sum(dim=1) + 1).clamp(min=best_B5.shape[1] + 1)
    ranks_B = torch.where(hits_B5.any(dim=1), hits_B5.int().argmax(dim=1) + 1, outside_B)
    return best_B5[:, 0], ranks_B
