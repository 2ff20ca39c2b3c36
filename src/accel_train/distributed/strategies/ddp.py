"""DDP: every process has a copy of the model and averages gradients; one process alone runs the plain model."""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from accel_train.distributed.strategies.base import accelerate_no_sync, accelerate_plain_model
from accel_train.distributed.strategies.whole_model import (
    full_norm,
    full_state,
    not_divided,
    own_parameters,
    own_tensor,
    run_in_turn,
)


class DDP:
    """`torch.nn.parallel.DistributedDataParallel`, or the plain model of a single process."""

    name = "DDP"
    variables = ""
    exact_supported = True
    compile_supported = True
    unfreezing_supported = True
    stages = 1
    replica_group = None
    elsewhere = ()
    batch_size_search_supported = True
    collective_forward = False
    fused_optimizer = True

    def check(self, processes: int, device: str, environ: Mapping[str, str]) -> None:
        pass

    def describe(self, processes: int) -> str:
        return "DDP" if processes > 1 else "single process"

    def notices(self) -> tuple[str, ...]:
        return ()

    def part(self, rank: int) -> int:
        return 0

    def place(self, rank: int) -> str:
        return ""

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

    divide = not_divided
    run = run_in_turn
    from_last_stage = own_tensor
    gradient_norm = full_norm
    gradient_leaves = own_parameters
    full_state = full_state
    no_sync = staticmethod(accelerate_no_sync)
    plain_model = staticmethod(accelerate_plain_model)

    def weights_changed(self, model: nn.Module) -> None:
        pass

    def trainable_changed(self, accelerator: Accelerator, model: nn.Module) -> None:
        """Collective: initialize DDP again, which waits for the gradients of the parameters that trained before."""
        if not isinstance(model, DistributedDataParallel):
            return
        handler = accelerator.ddp_handler
        given = handler.to_kwargs() if handler else {}
        DistributedDataParallel.__init__(
            model, model.module, model.device_ids, model.output_device, init_sync=False, **given
        )
        if handler:
            handler.register_comm_hook(model)

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
