"""What a strategy provides; nothing else knows how a model is wrapped or sharded."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from accel_train.distributed.strategies.inputs import Division, Passes


class Strategy(Protocol):
    """How the processes of a run share a model, its gradients and its checkpoints."""

    @property
    def name(self) -> str:
        """Name for messages, such as DDP."""
        ...

    @property
    def variables(self) -> str:
        """The kind of runs, in environment_table.py, whose variables it obeys or refuses; empty if it has none."""
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
    def compile_supported(self) -> bool:
        """True if the model may be compiled."""
        ...

    @property
    def unfreezing_supported(self) -> bool:
        """True if parameters that are frozen at first may be trained later."""
        ...

    @property
    def stages(self) -> int:
        """Processes that share a replica of the model, each with some of its layers; they get the same images."""
        ...

    @property
    def replica_group(self) -> ProcessGroup | None:
        """The processes that store the same layers and compute different micro-batches; None for all."""
        ...

    @property
    def fused_optimizer(self) -> bool:
        """True if torch's fused optimizers take the prepared parameters."""
        ...

    @property
    def collective_forward(self) -> bool:
        """True if a forward pass communicates: every process must make as many as the others."""
        ...

    def check(self, processes: int, device: str, environ: Mapping[str, str]) -> None:
        """Check that a run can use it on this number of processes, on this kind of device and by this launcher.

        Raises:
            UserError: it cannot, or it would have no effect.
        """
        ...

    def describe(self, processes: int) -> str:
        """Return what the banner shows."""
        ...

    def notices(self) -> tuple[str, ...]:
        """Return what the user should know before the run starts; called after :meth:`prepare`."""
        ...

    def part(self, rank: int) -> int:
        """Return which part of the tensors that are not replicated a process stores; equal numbers, equal parts."""
        ...

    def place(self, rank: int) -> str:
        """Return what the map of ranks shows of a process: its replica and stage; empty if it has the whole model."""
        ...

    def plugin(self, environ: Mapping[str, str]) -> Any:
        """Return the plugin that the Accelerator is made with, or None."""
        ...

    def activate(self, accelerator: Accelerator, plugin: Any) -> None:
        """Correct what Accelerate leaves undone; called right after the Accelerator is made."""
        ...

    def is_active(self, accelerator: Accelerator) -> bool:
        """Return whether Accelerate runs this strategy."""
        ...

    def divide(self, accelerator: Accelerator, model: nn.Module, division: Division) -> None:
        """Collective: remove from a new model on the CPU what other processes train.

        Raises:
            UserError: it cannot be divided as asked.
        """
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

    def run(self, accelerator: Accelerator, model: nn.Module, passes: Passes) -> None:
        """Collective: make the passes of an update; the gradients of micro-batches are added up."""
        ...

    def from_last_stage(self, tensor: Tensor) -> Tensor:
        """Collective: return the tensor that the process with the last layers gives; all give one of its shape."""
        ...

    def gradient_norm(self, parameters: Iterable[nn.Parameter]) -> Tensor:
        """Collective: return the norm of the gradients of the whole model, given the parameters of this process."""
        ...

    def gradient_leaves(self, model: nn.Module) -> list[Tensor | None]:
        """Collective: return the leaf tensors that backward passes compute gradients for, one per parameter.

        A hook on one gets the gradient of a micro-batch, before it is averaged. None: another process computes it. Not
        to be called between the passes of an update.
        """
        ...

    def plain_model(self, accelerator: Accelerator, model: nn.Module) -> nn.Module:
        """Return the model without wrappers: its parameter names are those of checkpoints."""
        ...

    def weights_changed(self, model: nn.Module) -> None:
        """Drop copies of weights that were replaced from outside the optimizer."""
        ...

    def trainable_changed(self, accelerator: Accelerator, model: nn.Module) -> None:
        """Collective: share the gradients of a prepared model again, after parameters were frozen or unfrozen."""
        ...

    def local(self, tensor: Tensor) -> Tensor:
        """Return the part of a tensor that this process stores."""
        ...

    def full(self, tensor: Tensor) -> Tensor:
        """Collective: return a tensor unsharded."""
        ...

    def full_state(self, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
        """Collective: yield the state of the plain model, unsharded, one tensor at a time; all of it on rank 0."""
        ...

    @property
    def elsewhere(self) -> Collection[str]:
        """Names of the parameters and buffers that only other processes store."""
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
