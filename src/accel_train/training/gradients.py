"""Averages gradients over micro-batches and processes: as the strategy does it, or in one fixed order."""

from typing import Protocol

from accelerate import Accelerator
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.distributed import process_group
from accel_train.distributed.strategies.base import Strategy
from accel_train.errors import LocalError, UserError
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.tree_reduce import TreeReduce, flat_gradients, set_gradients


class GradientAverage(Protocol):
    """Collects the gradients of this process's micro-batches, and BatchNorm's changes with them."""

    by_strategy: bool
    """Whether the strategy averages over replicas, with the last backward pass of an update."""

    def take(self) -> None:
        """Take the gradients that a backward pass has left, and the change of BatchNorm's buffers."""
        ...

    def finish(self) -> None:
        """Collective: set each parameter's gradient to the mean over all micro-batches, for the optimizer."""
        ...


class StrategyAverage:
    """Adds as DDP or FSDP do: within a process by micro-batch, then over processes."""

    by_strategy = True

    def __init__(
        self, accelerator: Accelerator, strategy: Strategy, model: nn.Module, batch_norm: BatchNormBuffers, plan: Plan
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._batch_norm = batch_norm
        self._micro_batches = plan.micro_batches
        self._per_replica = plan.micro_batches / plan.replicas
        self._change: Tensor | None = None

    def take(self) -> None:
        change = self._batch_norm.take_change()
        self._change = change if self._change is None else self._change + change

    def finish(self) -> None:
        if self._per_replica != 1:
            # The strategy divides by the replicas. Dividing here, not the loss, keeps the backward pass of a
            # micro-batch bit-identical wherever it runs.
            for parameter in self._model.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(self._per_replica)
        change, self._change = self._change, None
        assert change is not None
        if change.numel():
            process_group.sum_over(self._strategy.replica_group, change)
        self._batch_norm.end_update(change, self._micro_batches)


class TreeAverage:
    """Adds in a fixed binary tree over all micro-batches, whichever process computes them (`--exact`)."""

    by_strategy = False

    def __init__(
        self, accelerator: Accelerator, strategy: Strategy, model: nn.Module, batch_norm: BatchNormBuffers, plan: Plan
    ) -> None:
        self._model = model
        self._batch_norm = batch_norm
        self._micro_batches = plan.micro_batches
        self._stages = plan.stages
        replica = accelerator.process_index // plan.stages
        self._tree = TreeReduce(plan.blocks, replica, strategy.replica_group)

    def take(self) -> None:
        refuse_unused(self._model, self._stages)
        parameters = self._trained()
        self._tree.add(flat_gradients(parameters, self._batch_norm.take_change()))
        for parameter in parameters:
            parameter.grad = None

    def finish(self) -> None:
        total, parameters = self._tree.total(), self._trained()
        size = sum(p.numel() for p in parameters)
        total[:size] /= self._micro_batches
        self._batch_norm.end_update(set_gradients(parameters, total), self._micro_batches)

    def _trained(self) -> list[nn.Parameter]:
        """Return the parameters that train now."""
        return [p for p in self._model.parameters() if p.requires_grad]


def refuse_unused(model: nn.Module, stages: int = 1) -> None:
    """Refuse a model with an unused parameter: processes would wait for its gradient forever.

    Raises:
        UserError: a trainable parameter has no gradient, not even zeros; of several stages one finds that.
    """
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    if unused:
        more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
        raise (LocalError if stages > 1 else UserError)(
            f"the loss does not depend on the model's parameter {unused[0].removeprefix('module.')}{more}",
            "remove the unused part, or freeze it with requires_grad_(False)",
        )
