"""What a strategy provides; nothing else knows how a model is wrapped or sharded."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed import ProcessGroup


class Strategy(Protocol):
    """How the processes of a run share a model, its gradients and its checkpoints."""

    @property
    def name(self) -> str:
        """Name for the banner, such as DDP."""
        ...

    @property
    def exact_supported(self) -> bool:
        """True if `--exact` gives bit-identical results under this strategy."""
        ...

    @property
    def batch_size_search_supported(self) -> bool:
        """True if one process alone can try a batch for `--auto-micro-batch`."""
        ...

    @property
    def fused_optimizer(self) -> bool:
        """True if torch's fused optimizers take the prepared parameters."""
        ...

    @property
    def collective_forward(self) -> bool:
        """True if a forward pass communicates: every process must make as many as the others."""
        ...

    def plugin(self, environ: Mapping[str, str]) -> Any:
        """Return the plugin that the Accelerator is made with, or None.

        Raises:
            UserError: the launcher's configuration asks for what is not supported.
        """
        ...

    def activate(self, accelerator: Accelerator, plugin: Any) -> None:
        """Correct what Accelerate leaves undone; called right after the Accelerator is made."""
        ...

    def is_active(self, accelerator: Accelerator) -> bool:
        """Return whether Accelerate runs this strategy."""
        ...

    def prepare(
        self, accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer, *loaders: Any
    ) -> tuple[Any, ...]:
        """Collective: return model, optimizer and loaders as `Accelerator.prepare` returns them.

        Raises:
            UserError: the model was not shared as asked.
        """
        ...

    def no_sync(self, accelerator: Accelerator, model: nn.Module) -> AbstractContextManager[Any]:
        """Return a context in which a backward pass does not communicate."""
        ...

    def plain_model(self, accelerator: Accelerator, model: nn.Module) -> nn.Module:
        """Return the model without wrappers: its parameter names are those of checkpoints."""
        ...

    def weights_changed(self, model: nn.Module) -> None:
        """Drop copies of weights that were replaced from outside the optimizer."""
        ...

    def local(self, tensor: Tensor) -> Tensor:
        """Return the part of a tensor that this process stores."""
        ...

    def full(self, tensor: Tensor) -> Tensor:
        """Collective: return a tensor unsharded."""
        ...

    def is_replicated(self, tensor: Tensor) -> bool:
        """Return whether every process stores all of a tensor."""
        ...

    def cpu_copy(self, tensor: Tensor) -> Tensor:
        """Copy a tensor, contiguous, to the CPU for a checkpoint; of a sharded one this process's part."""
        ...

    def checkpoint_group(self, timeout: int) -> ProcessGroup | None:
        """Collective: return a new group of the processes that write a checkpoint; None if rank 0 writes all of it."""
        ...


def accelerate_no_sync(accelerator: Accelerator, model: nn.Module) -> AbstractContextManager[Any]:
    """Return Accelerate's `no_sync`, for the strategies that it prepares."""
    context: AbstractContextManager[Any] = accelerator.no_sync(model)
    return context


def accelerate_plain_model(accelerator: Accelerator, model: nn.Module) -> nn.Module:
    """Return the model without Accelerate's wrappers, for the strategies that it prepares."""
    plain: nn.Module = accelerator.unwrap_model(model, keep_fp32_wrapper=True, keep_torch_compile=False)
    return plain
