"""FSDP2: every process stores a shard of each parameter; Accelerate shards the model block by block."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, convert_outputs_to_fp32
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

from accel_train.distributed.environment_check import check_environment
from accel_train.distributed.environment_values import flag
from accel_train.distributed.process_group import host_group
from accel_train.distributed.strategies.base import accelerate_no_sync, accelerate_plain_model
from accel_train.errors import UserError

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


class FSDP2:
    """`torch.distributed.fsdp.fully_shard` through Accelerate."""

    name = "FSDP2"
    exact_supported = False
    batch_size_search_supported = False
    collective_forward = True
    fused_optimizer = False  # torch 2.14 has no fused SGD for DTensors

    def plugin(self, environ: Mapping[str, str]) -> FullyShardedDataParallelPlugin:
        """Return the plugin; `reshard_after_forward` is the launcher's. Default: true.

        The blocks are chosen here (see :func:`blocks`): the wizard of `accelerate config` wraps modules of more than
        1e8 parameters, which a ResNet-50 does not have.
        """
        check_environment(environ, applies="fsdp2")
        return FullyShardedDataParallelPlugin(
            fsdp_version=2,
            reshard_after_forward=flag(environ.get("FSDP_RESHARD_AFTER_FORWARD", "").strip() or "true"),
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=[],
            # Autocast chooses dtypes, as under DDP. A bf16 policy would give BatchNorm weights another dtype than its
            # statistics, and sum gradients in bf16.
            mixed_precision_policy=MixedPrecisionPolicy(),
            cpu_ram_efficient_loading=False,  # every process makes the same weights, from the seed
        )

    def activate(self, accelerator: Accelerator, plugin: FullyShardedDataParallelPlugin) -> None:
        """Make Accelerate shard on CPUs too; by itself it ignores the plugin there (accelerate 1.15).

        Raises:
            UserError: torch would use the machine's GPUs.
        """
        if accelerator.device.type != "cpu":
            return
        if torch.accelerator.is_available():
            raise UserError("FSDP2 on CPUs works only where torch sees no GPU", 'set CUDA_VISIBLE_DEVICES=""')
        state = accelerator.state
        state.fsdp_plugin = plugin
        state.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    def is_active(self, accelerator: Accelerator) -> bool:
        return bool(accelerator.is_fsdp2)

    def prepare(
        self, accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer, *loaders: Any
    ) -> tuple[Any, ...]:
        model.to(memory_format=torch.contiguous_format)  # torch shards no other memory format
        accelerator.state.fsdp_plugin.transformer_cls_names_to_wrap = sorted(blocks(model))
        if accelerator.native_amp:  # Accelerate does this for DDP, but not for FSDP2
            model.forward = convert_outputs_to_fp32(accelerator.autocast()(model.forward))
        prepared: tuple[Any, ...] = accelerator.prepare(model, optimizer, *loaders)
        check_sharded(accelerator, prepared[0])
        return prepared

    no_sync = staticmethod(accelerate_no_sync)
    plain_model = staticmethod(accelerate_plain_model)

    def weights_changed(self, model: nn.Module) -> None:
        """Reshard: parameters gathered in the last evaluation would be used once more."""
        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.reshard()

    def local(self, tensor: Tensor) -> Tensor:
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    def full(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def is_replicated(self, tensor: Tensor) -> bool:
        return not isinstance(tensor, DTensor) or all(placement.is_replicate() for placement in tensor.placements)

    def cpu_copy(self, tensor: Tensor) -> Tensor:
        own = self.local(tensor.detach()).to("cpu", copy=True, memory_format=torch.contiguous_format)
        if not isinstance(tensor, DTensor):
            return own
        mesh, placements = tensor.device_mesh, tensor.placements
        return DTensor.from_local(own, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride())

    def checkpoint_group(self, timeout: int) -> ProcessGroup | None:
        """Return a group of its own: collectives from two threads on one group can be mismatched."""
        return host_group(timeout)


def check_sharded(accelerator: Accelerator, model: nn.Module) -> None:
    """Check that every parameter is sharded on the device of the run.

    Raises:
        UserError: one is not.
    """
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, DTensor) or parameter.device_mesh.device_type != accelerator.device.type:
            raise UserError(
                f"--strategy fsdp2, but the parameter {name} is not sharded on {accelerator.device.type}",
                "use --strategy ddp, and please report it",
            )


def blocks(model: nn.Module) -> set[str]:
    """Return the class names of the modules to shard one by one: the outermost that repeat.

    These are the residual blocks of a ResNet and the layers of a transformer. Single layers are too small, and
    containers (stages) too large. A class that also occurs inside another block is not one.
    """
    parts = [(name, part) for name, part in model.named_modules() if name and _may_be_block(part)]
    count = Counter(type(part) for _, part in parts)
    repeated = {name: type(part) for name, part in parts if count[type(part)] > 1}
    inner = {kind for name, kind in repeated.items() if any(repeated.get(p, kind) is not kind for p in _parents(name))}
    return {kind.__name__ for kind in repeated.values() if kind not in inner}


def _may_be_block(part: nn.Module) -> bool:
    has_children = next(part.children(), None) is not None
    has_parameters = next(part.parameters(), None) is not None
    return has_children and has_parameters and not isinstance(part, _CONTAINERS)


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name
