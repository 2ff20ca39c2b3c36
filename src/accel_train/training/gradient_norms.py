"""Norms of the gradients of an update's micro-batches, before they are averaged.

Shape suffixes: K micro-batches of an update, P parameters of the model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.distributed import process_group
from accel_train.distributed.strategies.base import Strategy


class GradientNorms:
    """The norms of one update at a time.

    The norm of each parameter is kept on its own until all processes have exchanged theirs: the sum of the squares is
    then bit-identical on any number of processes, if the gradients are.
    """

    def __init__(self, accelerator: Accelerator, strategy: Strategy, model: nn.Module, plan: Plan) -> None:
        """`model` is the prepared one."""
        self._accelerator = accelerator
        self._strategy = strategy
        self._model = model
        self._micro_batches = plan.micro_batches
        self._own = plan.blocks[accelerator.process_index // plan.stages]
        self._leaves: list[Tensor | None] = []
        self._scale = 1.0
        """Of the losses, in fp16."""
        self._norms: dict[tuple[int, int], Tensor] = {}
        """By indices of micro-batch and parameter."""

    def begin(self) -> None:
        """Collective: prepare for the passes of an update."""
        self._leaves = self._leaves or self._strategy.gradient_leaves(self._model)
        self._scale = self._accelerator.scaler.get_scale() if self._accelerator.scaler else 1.0
        self._norms.clear()

    @contextmanager
    def measured(self, m: int) -> Iterator[None]:
        """Measure the gradient of this process's micro-batch `m` in its backward pass."""
        hooks = [
            leaf.register_hook(partial(self._measure, self._own[m], place))  # type: ignore[no-untyped-call]
            for place, leaf in enumerate(self._leaves)
            if leaf is not None and leaf.requires_grad
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _measure(self, micro_batch: int, place: int, gradient: Tensor) -> None:
        self._norms[micro_batch, place] = torch.linalg.vector_norm(gradient.detach())

    def mean_square(self) -> float:
        """Collective: return the mean over all micro-batches of the update of their squared norms."""
        found = torch.stack(list(self._norms.values()))
        norms_KP = found.new_zeros(self._micro_batches, len(self._leaves))
        norms_KP[tuple(torch.tensor(list(self._norms)).T)] = found
        process_group.sum_over(None, norms_KP)  # adds zeros, which is exact
        return float(norms_KP.cpu().double().div(self._scale).square().sum() / self._micro_batches)
