"""Arranges that Accelerate shares a model out among the processes by FSDP2, block by block."""

from collections import Counter
from collections.abc import Iterator, Mapping

import torch
from accelerate import Accelerator
from accelerate.state import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, convert_outputs_to_fp32
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

from accel_train.errors import UserError

_YES = ("true", "1", "yes")
_NOT_YET = {
    "FSDP_OFFLOAD_PARAMS": "fsdp_offload_params",
    "FSDP_ACTIVATION_CHECKPOINTING": "fsdp_activation_checkpointing",
}
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def plugin(environ: Mapping[str, str]) -> FullyShardedDataParallelPlugin:
    """Return FSDP2 for Accelerate; reshard_after_forward is the launcher's, by default true.

    Blocks are ours to name (see :func:`arrange`): what `accelerate config` writes, all parts of more than 1e8
    parameters, wraps nothing in a ResNet-50.

    Raises:
        UserError: the launcher's configuration asks for what is not supported.
    """
    if environ.get("FSDP_VERSION", "2") != "2":
        raise UserError(
            "the launcher's configuration asks for FSDP 1, which is not supported", "set fsdp_version: 2 in fsdp_config"
        )
    for variable, name in _NOT_YET.items():
        if environ.get(variable, "").lower() in _YES:
            raise UserError(f"{name} of the launcher's configuration is not supported yet", "set it to false")
    if "FSDP_IGNORED_MODULES" in environ:
        raise UserError("fsdp_ignored_modules of the launcher's configuration is not supported", "remove it")
    return FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=[],
        # Autocast chooses formats, as under DDP; a policy of bf16 would give BatchNorm weights of another type
        # than its statistics have, and sum gradients in bf16.
        mixed_precision_policy=MixedPrecisionPolicy(),
        cpu_ram_efficient_loading=False,  # every process makes the same weights, from the seed
    )


def enable_on_cpu(accelerator: Accelerator, fsdp2: FullyShardedDataParallelPlugin) -> None:
    """Have Accelerate shard on CPUs too; left alone it ignores the plugin there (accelerate 1.15).

    Raises:
        UserError: torch would take the machine's GPUs for it.
    """
    if torch.accelerator.is_available():
        raise UserError("FSDP2 on CPUs works only where torch sees no GPU", 'set CUDA_VISIBLE_DEVICES=""')
    state = accelerator.state
    state.fsdp_plugin = fsdp2
    state.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP


def arrange(accelerator: Accelerator, model: nn.Module) -> None:
    """Make a model ready for Accelerate to shard; call it right before `prepare`."""
    model.to(memory_format=torch.contiguous_format)  # torch shards nothing that lies otherwise
    accelerator.state.fsdp_plugin.transformer_cls_names_to_wrap = sorted(blocks(model))
    if accelerator.native_amp:  # as Accelerate does it for DDP, but not for FSDP2
        model.forward = convert_outputs_to_fp32(accelerator.autocast()(model.forward))


def check_sharded(accelerator: Accelerator, model: nn.Module) -> None:
    """Assert that every parameter lies in parts on the device of the run.

    Raises:
        UserError: one does not.
    """
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, DTensor) or parameter.device_mesh.device_type != accelerator.device.type:
            raise UserError(
                f"--strategy fsdp2, but {name} was not shared out among the processes on {accelerator.device.type}",
                "use --strategy ddp, and please report it",
            )


def blocks(model: nn.Module) -> set[str]:
    """Return the class names of the parts to be gathered one at a time: the outermost that repeat.

    Such are the residual blocks of a ResNet and the layers of a transformer. Single layers are too small, and
    containers (stages) too large. A class that also occurs inside another block is none.
    """
    parts = [(name, part) for name, part in model.named_modules() if name and _may_be_block(part)]
    count = Counter(type(part) for _, part in parts)
    repeated = {name: type(part) for name, part in parts if count[type(part)] > 1}
    inner = {kind for name, kind in repeated.items() if any(repeated.get(p, kind) is not kind for p in _parents(name))}
    return {kind.__name__ for kind in repeated.values() if kind not in inner}


def whole(tensor: Tensor) -> Tensor:
    """Collective: return a tensor as it is, or put together if it lies in parts."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local_part(tensor: Tensor) -> Tensor:
    """Return what this process holds of a tensor: all of it, unless it lies in parts."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def copy(tensor: Tensor) -> Tensor:
    """Copy a tensor, packed, to the CPU; of one that lies in parts this process's part."""
    own = local_part(tensor.detach()).to("cpu", copy=True, memory_format=torch.contiguous_format)
    if not isinstance(tensor, DTensor):
        return own
    mesh, placements = tensor.device_mesh, tensor.placements
    return DTensor.from_local(own, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride())


def _may_be_block(part: nn.Module) -> bool:
    has_children = next(part.children(), None) is not None
    has_parameters = next(part.parameters(), None) is not None
    return has_children and has_parameters and not isinstance(part, _CONTAINERS)


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name
