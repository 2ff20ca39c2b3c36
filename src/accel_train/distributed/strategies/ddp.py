"""DDP: every process has a copy of the model and averages gradients; one process alone runs the plain model."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn


class DDP:
    """`torch.nn.parallel.DistributedDataParallel`, or the plain model of a single process."""

    name = "DDP"
    exact_supported = True
    batch_size_search_supported = True
    fused_optimizer = True

    def plugin(self, environ: Mapping[str, str]) -> None:
        return None

    def activate(self, accelerator: Accelerator, plugin: Any) -> None:
        pass

    def is_active(self, accelerator: Accelerator) -> bool:
        return bool(accelerator.distributed_type != DistributedType.FSDP)

    def prepare(
        self, accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer, *loaders: Any
    ) -> tuple[Any, ...]:
        prepared: tuple[Any, ...] = accelerator.prepare(model, optimizer, *loaders)
        return prepared

    def no_sync(self, accelerator: Accelerator, model: nn.Module) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = accelerator.no_sync(model)
        return context

    def plain_model(self, accelerator: Accelerator, model: nn.Module) -> nn.Module:
        plain: nn.Module = accelerator.unwrap_model(model, keep_fp32_wrapper=True, keep_torch_compile=False)
        return plain

    def weights_changed(self, model: nn.Module) -> None:
        pass

    def local(self, tensor: Tensor) -> Tensor:
        return tensor

    def full(self, tensor: Tensor) -> Tensor:
        return tensor

    def is_replicated(self, tensor: Tensor) -> bool:
        return True

    def cpu_copy(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)

    def checkpoint_group(self, timeout: int) -> None:
        return None
