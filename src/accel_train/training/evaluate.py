"""Evaluates a model: every image counts once, on any number of processes.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from accel_train.data.loader import batches
from accel_train.data.sampler import PADDING
from accel_train.data.transforms import Transform
from accel_train.training.ema import Ema
from accel_train.training.loss import split_outputs
from accel_train.training.metrics import Means, Sums, means
from accel_train.training.predictions import PredictionRows


def evaluate(
    accelerator: Accelerator,
    model: nn.Module,
    loader: Any,
    transform: Transform,
    classes: int,
    interrupted: Callable[[], bool] = lambda: False,
    rows: PredictionRows | None = None,
) -> Means | None:
    """Collective: return means over all images of a loader; None if `interrupted` returned True, on all processes.

    The prediction for each image is added to `rows`.
    """
    model.eval()
    sums = Sums(accelerator.device, classes)
    with torch.no_grad():
        for batch in batches(loader):
            if interrupted():
                return None
            outputs = model(transform(batch.images_BCHW))
            logits_BK = None if outputs is None else split_outputs(outputs)[0]
            if rows is not None:
                rows.add(logits_BK, batch)
            if logits_BK is not None:  # else another process computes the last layers
                sums.add_images(logits_BK, batch.labels_B, batch.sample_indices_B != PADDING)
    return means(accelerator.reduce(sums.tensor, "sum"))


@dataclass(frozen=True)
class Validation:
    """The validation at the end of each epoch, of the weights and of their average if there is one."""

    accelerator: Accelerator
    model: nn.Module
    loader: Any
    transform: Transform
    classes: int
    ema: Ema | None

    def __call__(self, interrupted: Callable[[], bool]) -> tuple[Means, Means | None] | None:
        """Collective: return the means of the weights and of the EMA; None if interrupted."""
        found = []
        for weights in (nullcontext(), self.ema.in_place_of_weights()) if self.ema else (nullcontext(),):
            with weights:
                one = evaluate(self.accelerator, self.model, self.loader, self.transform, self.classes, interrupted)
            if one is None:
                return None
            found.append(one)
        return found[0], found[1] if self.ema else None
