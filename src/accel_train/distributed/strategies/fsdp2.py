"""FSDP2: every process stores a shard of each parameter; Accelerate shards the model block by block."""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, convert_outputs_to_fp32
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

from accel_train.config.strategies import check_processes
from accel_train.distributed.environment_check import check_environment
from accel_train.distributed.environment_values import flag
from accel_train.distributed.process_group import host_group
from accel_train.distributed.strategies import sharded
from accel_train.distributed.strategies.base import accelerate_no_sync, accelerate_plain_model
from accel_train.distributed.strategies.blocks import blocks
from accel_train.distributed.strategies.whole_model import (
    full_norm,
    full_state,
    not_divided,
    own_tensor,
    run_in_turn,
)
from accel_train.errors import UserError


class FSDP2:
    """`torch.distributed.fsdp.fully_shard` through Accelerate."""

    name = "FSDP2"
    variables = "fsdp2"
    exact_supported = False
    compile_supported = True
    unfreezing_supported = True
    stages = 1
    replica_group = None
    elsewhere = ()
    batch_size_search_supported = False
    collective_forward = True
    fused_optimizer = False  # torch 2.14 has no fused SGD for DTensors

    def check(self, processes: int, device: str, environ: Mapping[str, str]) -> None:
        check_environment(environ, applies=self.variables)
        check_processes("fsdp2", {}, processes)

    def describe(self, processes: int) -> str:
        return self.name

    def notices(self) -> tuple[str, ...]:
        return ()

    def part(self, rank: int) -> int:
        return rank

    def place(self, rank: int) -> str:
        return ""

    def plugin(self, environ: Mapping[str, str]) -> FullyShardedDataParallelPlugin:
        """Return the plugin; `reshard_after_forward` is the launcher's. Default: true.

        The blocks are chosen here (see :func:`blocks`): the wizard of `accelerate config` wraps modules of more than
        1e8 parameters, which a ResNet-50 does not have.
        """
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
        accelerator.state.fsdp_plugin.transformer_cls_names_to_wrap = sorted(
            {type(block).__name__ for block in blocks(model)}
        )
        if accelerator.native_amp:  # Accelerate does this for DDP, but not for FSDP2
            model.forward = convert_outputs_to_fp32(accelerator.autocast()(model.forward))
        prepared: tuple[Any, ...] = accelerator.prepare(model, optimizer, *loaders)
        check_sharded(accelerator, prepared[0], self.name)
        return prepared

    divide = not_divided
    run = run_in_turn
    from_last_stage = own_tensor
    gradient_norm = full_norm
    full_state = full_state
    no_sync = staticmethod(accelerate_no_sync)
    plain_model = staticmethod(accelerate_plain_model)

    def gradient_leaves(self, model: nn.Module) -> list[Tensor | None]:
        """Collective: return the unsharded parameters, which torch keeps, without data while they are sharded."""
        leaves: dict[str, Tensor] = {}
        for path, part in model.named_modules():
            parameters = part.named_parameters(path)
            if isinstance(part, FSDPModule):
                part.unshard()
                leaves |= ((name, leaf) for name, leaf in parameters if not isinstance(leaf, DTensor))
                part.reshard()
        return [leaves[name] for name, _ in model.named_parameters()]

    def weights_changed(self, model: nn.Module) -> None:
        """Reshard: parameters gathered in the last evaluation would be used once more."""
        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.reshard()

    def trainable_changed(self, accelerator: Accelerator, model: nn.Module) -> None:
        pass

    def local(self, tensor: Tensor) -> Tensor:
        return sharded.local(tensor)

    def full(self, tensor: Tensor) -> Tensor:
        return sharded.full(tensor)

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


def check_sharded(accelerator: Accelerator, model: nn.Module, strategy: str) -> None:
    """Check that every parameter is sharded on the device of the run.

    Raises:
        UserError: one is not.
    """
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, DTensor) or parameter.device_mesh.device_type != accelerator.device.type:
            raise UserError(
                f"strategy {strategy}, but the parameter {name} is not sharded on {accelerator.device.type}",
                "use --strategy ddp, and please report it",
            )
