"""Makes one mean gradient out of those of all virtual workers: by DDP or FSDP, or in one fixed order."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.distributed.strategies import fsdp2 as sharding
from accel_train.errors import UserError
from accel_train.training.batch_norm import RunningStatistics
from accel_train.training.tree_reduce import FixedTree, gradients, set_gradients


class MeanGradient(Protocol):
    """Takes the gradients of this process's virtual workers one by one, and BatchNorm's changes with them."""

    def backward_context(self, last: bool) -> AbstractContextManager[Any]:
        """Return the context of a forward and a backward pass, the last of the update or not."""
        ...

    def add(self) -> None:
        """Take what the backward pass has left."""
        ...

    def finish(self) -> None:
        """Collective: leave the mean over all virtual workers in the model, for the optimizer."""
        ...


class OrdinaryMean:
    """The order of adding is that of DDP or FSDP: within a process by micro-batch, then over processes."""

    def __init__(self, accelerator: Accelerator, model: nn.Module, statistics: RunningStatistics, plan: Plan) -> None:
        self._accelerator = accelerator
        self._model = model
        self._statistics = statistics
        self._plan = plan

    def backward_context(self, last: bool) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = nullcontext() if last else self._accelerator.no_sync(self._model)
        return context

    def add(self) -> None:
        self._statistics.end_micro_batch()

    def finish(self) -> None:
        if self._plan.accumulate > 1:
            # Dividing here and not the loss keeps each virtual worker's backward pass the same bits wherever it runs.
            for parameter in self._model.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(self._plan.accumulate)
        change = self._statistics.take_change()
        if change.numel():
            change = self._accelerator.reduce(change, "sum")
        self._statistics.end_update(change, self._plan.virtual_workers)


class ExactMean:
    """The order of adding is a binary tree over all virtual workers, whichever process they are on."""

    def __init__(self, accelerator: Accelerator, model: nn.Module, statistics: RunningStatistics, plan: Plan) -> None:
        self._accelerator = accelerator
        self._model = model
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._statistics = statistics
        self._workers = plan.virtual_workers
        self._tree = FixedTree(plan.virtual_workers, plan.processes, accelerator.process_index)

    def backward_context(self, last: bool) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self._accelerator.no_sync(self._model)
        return context

    def add(self) -> None:
        refuse_unused(self._model)
        self._statistics.end_micro_batch()
        self._tree.add(gradients(self._parameters, self._statistics.take_change()))
        for parameter in self._parameters:
            parameter.grad = None

    def finish(self) -> None:
        total = self._tree.total()
        size = sum(p.numel() for p in self._parameters)
        total[:size] /= self._workers
        self._statistics.end_update(set_gradients(self._parameters, total), self._workers)


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Collective: return the norm of the gradients that the parameters hold."""
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    whole: Tensor = sharding.whole(norm)
    return whole


def refuse_unused(model: nn.Module) -> None:
    """Refuse a model of which a part is unused: processes would wait for ever for the gradient of it.

    Raises:
        UserError: a parameter to be trained has no gradient, not even zeros.
    """
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    if unused:
        more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
        raise UserError(
            f"the loss does not depend on the model's parameter {unused[0].removeprefix('module.')}{more}",
            "remove the unused part, or freeze it with requires_grad_(False)",
        )
