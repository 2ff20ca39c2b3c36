"""One update of the weights: the gradient of each micro-batch, their mean, the optimizer's step.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.distributed.strategies.base import Strategy
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.ema import Ema
from accel_train.training.gradient_norms import GradientNorms
from accel_train.training.gradients import GradientAverage, refuse_unused
from accel_train.training.loss import Loss, Targets
from accel_train.training.metrics import Sums
from accel_train.training.micro_batches import MicroBatch
from accel_train.training.optimizers import LR_FACTOR
from accel_train.training.random_numbers import RandomNumbers
from accel_train.training.timing import Timing


class Updated(NamedTuple):
    """What an update was computed from."""

    losses: list[Tensor]
    """Of this process's micro-batches."""
    sample_indices: list[Tensor]
    norm: Tensor | None
    """Norm of the gradient before it was clipped, over all processes; None if it was neither measured nor clipped."""


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
    random_numbers: RandomNumbers
    loss: Loss
    clip_norm: float | None
    epoch_sums: Sums
    """Metrics of this process's images of the current epoch."""
    timing: Timing
    tick: Callable[[], None]
    """Tells the watchdog that this process may wait for others from here."""
    norms: GradientNorms | None = None
    """Measures the gradients of micro-batches; None if they are never measured."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Torch's own optimizer."""
        optimizer: torch.optim.Optimizer = self.prepared_optimizer.optimizer
        return optimizer

    def update(self, micro_batches: Iterator[MicroBatch], update: int, *, measured: bool = False) -> Updated:
        """Collective: take the micro-batches of an update, and update the weights by the mean of their gradients.

        A process may get more micro-batches than its own, as many as any process has. If `measured`, the norm of the
        gradient is returned, and `norms` has those of micro-batches.
        """
        self.optimizer.zero_grad()  # not earlier: gradients are checked until here
        norms = self.norms if measured else None
        if norms:
            norms.begin()
        passes = UpdatePasses(self, islice(micro_batches, self.plan.accumulate), update, norms)
        self.strategy.run(self.accelerator, self.model, passes)
        if self.gradients.by_strategy and update % self.plan.updates_per_epoch == 0:
            refuse_unused(self.model, self.plan.stages)  # after the last pass: FSDP sets gradients in it
        deque(passes.micro_batches, maxlen=0)
        return Updated(passes.losses, passes.sample_indices, self._finish(update, measured=measured))

    def _finish(self, update: int, *, measured: bool) -> Tensor | None:
        """Collective: update the weights by the mean gradient; return its norm if it is measured or clipped."""
        with self.timing.span("optimizer"):
            self.gradients.finish()
            for group in self.optimizer.param_groups:
                group["lr"] = self.plan.learning_rate(update) * group[LR_FACTOR]
            norm = self._norm() if measured or self.clip_norm is not None else None
            if norm is not None and self.clip_norm is not None:
                torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.clip_norm, norm)
            self._step()
            if self.ema is not None:
                self.ema.update()
        self.timing.count(self.plan.global_batch)
        return norm

    def _norm(self) -> Tensor:
        """Return the norm before the optimizer's step, which may write into gradients, such as torch's SGD."""
        self.accelerator.unscale_gradients(self.prepared_optimizer)
        return self.strategy.gradient_norm(self.model.parameters())

    @cached_property
    def _step(self) -> Callable[[], Any]:
        # The loss scaler needs Accelerate's step, which searches the installed packages at every update.
        step: Callable[[], Any] = (self.prepared_optimizer if self.accelerator.scaler else self.optimizer).step
        return step


class UpdatePasses:
    """The passes of one update, of this process's micro-batches; their order is the strategy's."""

    def __init__(
        self, updater: Updater, micro_batches: Iterator[MicroBatch], update: int, norms: GradientNorms | None
    ) -> None:
        self.count = len(updater.own)
        self.most = updater.plan.accumulate
        self.averaged = updater.gradients.by_strategy
        self.micro_batches = micro_batches
        """Those whose forward pass has not begun."""
        self.losses: list[Tensor] = []
        """Of the micro-batches of this process, if it computes them."""
        self.sample_indices: list[Tensor] = []
        self.tick = updater.tick
        self._updater = updater
        self._update = update
        self._norms = norms
        self._targets: dict[int, Targets] = {}

    @contextmanager
    def forward(self, m: int) -> Iterator[Tensor]:
        updater, batch = self._updater, next(self.micro_batches)
        self._targets[m] = batch.targets
        if m >= self.count:
            yield batch.images_BCHW
            return
        self.sample_indices.append(batch.sample_indices_B)
        updater.random_numbers.begin(self._update, updater.own[m])
        with updater.timing.span("forward"):
            updater.batch_norm.begin_micro_batch()
            yield batch.images_BCHW
            updater.batch_norm.end_micro_batch()

    def loss(self, m: int, outputs: Any) -> Tensor:
        updater, targets = self._updater, self._targets.pop(m)
        loss, logits_BK = updater.loss(outputs, targets)
        if m >= self.count:
            return 0 * loss
        updater.epoch_sums.add_batch(loss, logits_BK, targets.labels_B)
        self.losses.append(loss.detach())
        return loss

    @contextmanager
    def backward(self, m: int) -> Iterator[None]:
        updater = self._updater
        if m >= self.count:
            yield
            return
        with updater.timing.span("backward"), self._norms.measured(m) if self._norms else nullcontext():
            yield
        updater.gradients.take()
