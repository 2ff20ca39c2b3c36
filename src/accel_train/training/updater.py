"""One update of the weights: the gradient of each micro-batch, their mean, the optimizer's step.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.data.worker_batches import Batch
from accel_train.distributed.strategies.base import Strategy
from accel_train.rng import make_key, seed_libraries
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.ema import Ema
from accel_train.training.gradients import GradientAverage, refuse_unused
from accel_train.training.loss import training_loss
from accel_train.training.metrics import Sums
from accel_train.training.timing import Timing


class Updated(NamedTuple):
    """What an update was computed from."""

    losses: list[Tensor]
    """Of this process's micro-batches."""
    sample_indices: list[Tensor]
    clipped_norm: Tensor | None
    """Norm of the gradient before it was clipped, over all processes; None if it was not."""


@dataclass(frozen=True)
class Updater:
    """Updates the weights of a model."""

    accelerator: Accelerator
    model: nn.Module
    """As prepared, like `prepared_optimizer`."""
    prepared_optimizer: AcceleratedOptimizer
    strategy: Strategy
    gradients: GradientAverage
    batch_norm: BatchNormBuffers
    ema: Ema | None
    plan: Plan
    own: range
    """The indices of this process's micro-batches in an update."""
    seed: int
    label_smoothing: float
    clip_norm: float | None
    epoch_sums: Sums
    """Metrics of this process's images of the current epoch."""
    timing: Timing
    tick: Callable[[], None]
    """Tells the watchdog that this process may wait for others from here."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Torch's own optimizer."""
        optimizer: torch.optim.Optimizer = self.prepared_optimizer.optimizer
        return optimizer

    def update(self, micro_batches: Iterator[Batch], update: int) -> Updated:
        """Collective: take the micro-batches of an update, and update the weights by the mean of their gradients.

        A process may get more micro-batches than its own, as many as any process has.
        """
        losses: list[Tensor] = []
        sample_indices: list[Tensor] = []
        passes = self.plan.accumulate if self.strategy.collective_forward else len(self.own)
        for m, batch in enumerate(islice(micro_batches, self.plan.accumulate)):
            if m == 0:
                self.optimizer.zero_grad()  # not earlier: the gradient norm may be read until here
            if m < len(self.own):
                losses.append(self._micro_batch(batch, update, self.own[m], last=m == passes - 1))
                sample_indices.append(batch.sample_indices_B)
            elif m < passes:
                self._take_part(batch, last=m == passes - 1)
        return Updated(losses, sample_indices, self._finish(update))

    def _micro_batch(self, batch: Batch, update: int, index: int, *, last: bool) -> Tensor:
        """Add the gradient of a micro-batch and return its loss."""
        seed_libraries(make_key(self.seed, "update", update, index))
        with self.gradients.passes(last):
            with self.timing.span("forward"):
                self.batch_norm.begin_micro_batch()
                loss, logits_BK = training_loss(self.model(batch.images_BCHW), batch.labels_B, self.label_smoothing)
                self.batch_norm.end_micro_batch()
            self.tick()
            with self.timing.span("backward"):
                self.accelerator.backward(loss)
        if last and update % self.plan.updates_per_epoch == 0:
            refuse_unused(self.model)
        self.gradients.take()
        self.epoch_sums.add_batch(loss, logits_BK, batch.labels_B)
        return loss.detach()

    def _take_part(self, batch: Batch, *, last: bool) -> None:
        """Collective: pass a micro-batch without weight, as long as other processes have one of their own."""
        with self.gradients.passes(last):
            loss, _ = training_loss(self.model(batch.images_BCHW), batch.labels_B, self.label_smoothing)
            self.tick()
            self.accelerator.backward(0 * loss)

    def _finish(self, update: int) -> Tensor | None:
        """Collective: update the weights by the mean gradient; return the gradient norm if it was clipped."""
        with self.timing.span("optimizer"):
            self.gradients.finish()
            for group in self.optimizer.param_groups:
                group["lr"] = self.plan.learning_rate(update)
            norm: Tensor | None = None
            if self.clip_norm is not None:
                norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip_norm)
            self._step()
            if self.ema is not None:
                self.ema.update()
        self.timing.count(self.plan.global_batch)
        return norm

    @cached_property
    def _step(self) -> Callable[[], Any]:
        # The loss scaler needs Accelerate's step, which searches the installed packages at every update.
        step: Callable[[], Any] = (self.prepared_optimizer if self.accelerator.scaler else self.optimizer).step
        return step
