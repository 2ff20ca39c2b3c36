"""One update of the weights: the gradient of each micro-batch, their mean, the optimizer's step.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.data.worker_batches import Batch
from accel_train.rng import make_key, seed_libraries
from accel_train.training.ema import Ema
from accel_train.training.gradients import GradientAverage, refuse_unused
from accel_train.training.loss import training_loss
from accel_train.training.metrics import Sums
from accel_train.training.timing import Timing


@dataclass(frozen=True)
class Updater:
    """Updates a model; micro-batch m of this process has the index `rank * accumulate + m` in the update."""

    accelerator: Accelerator
    model: nn.Module
    """As prepared, like `prepared_optimizer`."""
    prepared_optimizer: AcceleratedOptimizer
    gradients: GradientAverage
    ema: Ema | None
    plan: Plan
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

    def micro_batch(self, batch: Batch, update: int, m: int) -> Tensor:
        """Add the gradient of this process's micro-batch m and return its loss.

        Collective for the last one of an update.
        """
        if m == 0:
            self.optimizer.zero_grad()  # not earlier: the gradient norm may be read until here
        micro_batch_index = self.accelerator.process_index * self.plan.accumulate + m
        seed_libraries(make_key(self.seed, "update", update, micro_batch_index))
        last = m == self.plan.accumulate - 1
        with self.gradients.begin_micro_batch(last):
            with self.timing.span("forward"):
                loss, logits_BK = training_loss(self.model(batch.images_BCHW), batch.labels_B, self.label_smoothing)
            self.tick()
            with self.timing.span("backward"):
                self.accelerator.backward(loss)
        if last and update % self.plan.updates_per_epoch == 0:
            refuse_unused(self.model)
        self.gradients.end_micro_batch()
        self.epoch_sums.add_batch(loss, logits_BK, batch.labels_B)
        return loss.detach()

    def finish(self, update: int) -> Tensor | None:
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
