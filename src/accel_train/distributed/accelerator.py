"""Starts the Accelerator and checks that what was asked for is what runs."""

import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import (
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    InitProcessGroupKwargs,
    broadcast_object_list,
)
from torch import Tensor, nn

from accel_train.distributed import process_group
from accel_train.distributed.environment import launched
from accel_train.distributed.resolve import choose_backend, choose_device, choose_precision, choose_strategy
from accel_train.distributed.strategies import fsdp2 as sharding
from accel_train.errors import UserError

T = TypeVar("T")

_AUTOCAST = {"fp32": "no", "tf32": "no", "fp64": "no", "bf16": "bf16", "fp16": "fp16"}
_NAMES = {"ddp": "DDP", "fsdp2": "FSDP2"}
DTYPES = {"fp64": torch.float64}
"""Number format of weights and images, where it is not float32."""
stop = process_group.leave
"""What ends that which :func:`start` began."""


def start(
    *, device: str, backend: str | None, precision: str | None, timeout: int, strategy: str = "auto"
) -> tuple[Accelerator, str]:
    """Collective: form the group of processes; return the Accelerator and the precision that runs.

    Raises:
        UserError: a launcher's or an option's wish cannot be met here, or a process has not come.
    """
    kind = choose_device(device, os.environ)
    precision = choose_precision(precision, kind, os.environ)
    world_size = int(os.environ["WORLD_SIZE"]) if launched() else 1
    strategy = choose_strategy(strategy, world_size, os.environ)
    backend = choose_backend(backend, kind, world_size)
    _set_float32(precision)
    if backend not in (None, "mpi"):  # MPI has its own way of meeting, which Accelerate knows
        process_group.join(backend, timeout)
    accelerator = _accelerator(kind, backend, _AUTOCAST[precision], timeout, strategy)
    _check_obtained(accelerator, kind, backend, world_size, _AUTOCAST[precision], strategy)
    return accelerator, precision


def on_main(accelerator: Accelerator, function: Callable[[], T]) -> T:
    """Collective: call a function on rank 0 alone and return its result, or raise its UserError, on all."""
    outcome: list[Any] = [None]
    if accelerator.is_main_process:
        try:
            outcome = [function()]
        except UserError as error:
            outcome = [error]
    broadcast_object_list(outcome)
    if isinstance(outcome[0], UserError):
        raise outcome[0]
    result: T = outcome[0]
    return result


def device_name(accelerator: Accelerator) -> str:
    """Name this process's device, with its number if there can be several."""
    device = accelerator.device
    return device.type if device.type == "cpu" else str(device)


def unwrapped(accelerator: Accelerator, model: nn.Module) -> nn.Module:
    """Return the model without what Accelerate put around it."""
    plain: nn.Module = accelerator.unwrap_model(model, keep_fp32_wrapper=True, keep_torch_compile=False)
    return plain


def prepare(
    accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer, *loaders: Any
) -> tuple[Any, ...]:
    """Collective: hand a model, its optimizer and loaders to Accelerate, and return them as it gives them back.

    Raises:
        UserError: the model was not shared out among the processes, though it was asked for.
    """
    if not accelerator.is_fsdp2:
        prepared: tuple[Any, ...] = accelerator.prepare(model, optimizer, *loaders)
        return prepared
    sharding.arrange(accelerator, model)
    prepared = accelerator.prepare(model, optimizer, *loaders)
    sharding.check_sharded(accelerator, prepared[0])
    return prepared


def whole_weights(accelerator: Accelerator, model: nn.Module) -> dict[str, Tensor]:
    """Collective: return on rank 0 what plain torch loads into the plain model with `strict=True`; nothing elsewhere.

    The tensors are on the CPU, whole, packed, each in memory of its own.
    """
    weights = {}
    for name, weight in unwrapped(accelerator, model).state_dict().items():
        tensor = sharding.whole(weight.detach())  # one at a time: all at once may not fit on the device
        if accelerator.is_main_process:
            weights[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
    return weights


def strategy(accelerator: Accelerator) -> str:
    """Name how the work is shared."""
    if accelerator.num_processes == 1:
        return "single process"
    return _NAMES["fsdp2" if accelerator.is_fsdp2 else "ddp"]


def _accelerator(kind: str, backend: str | None, autocast: str, timeout: int, strategy: str) -> Accelerator:
    # torch has renamed broadcast_buffers, accelerate 1.15 knows the old name alone.
    warnings.filterwarnings("ignore", message="`broadcast_buffers` is deprecated")
    fsdp2 = sharding.plugin(os.environ) if strategy == "fsdp2" else None
    os.environ["ACCELERATE_USE_FSDP"] = str(fsdp2 is not None).lower()  # the launcher's word counts for Accelerate
    group = InitProcessGroupKwargs(timeout=timedelta(seconds=timeout))
    if backend is not None:
        group.backend = backend
    accelerator = Accelerator(
        cpu=kind == "cpu",
        mixed_precision=autocast,
        fsdp_plugin=fsdp2,
        rng_types=[],  # keys take the place of generators in step
        dataloader_config=DataLoaderConfiguration(
            split_batches=True,
            even_batches=False,
            use_seedable_sampler=False,
            non_blocking=kind == "cuda",  # from pinned memory: that of loader workers is used again
        ),
        kwargs_handlers=[
            group,
            # RunningStatistics averages what changes; DDP would copy those of rank 0 over the others.
            DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True),
        ],
    )
    if fsdp2 is not None and kind == "cpu":
        sharding.enable_on_cpu(accelerator, fsdp2)
    return accelerator


def _set_float32(precision: str) -> None:
    # The newer fp32_precision makes the getters of these raise, which torch's own compiler asks (2.14).
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def _check_obtained(
    accelerator: Accelerator, device: str, backend: str | None, world_size: int, autocast: str, asked_strategy: str
) -> None:
    obtained_backend = torch.distributed.get_backend() if world_size > 1 else None
    compared = {
        "processes": (world_size, accelerator.num_processes),
        "device": (device, accelerator.device.type),
        "mixed precision": (autocast, accelerator.mixed_precision),
        "backend": (backend, obtained_backend),
        "Accelerate's backend": (obtained_backend, accelerator.state.backend if world_size > 1 else None),
        "strategy": (_NAMES[asked_strategy] if world_size > 1 else "single process", strategy(accelerator)),
    }
    for what, (asked, obtained) in compared.items():
        if asked != obtained:
            raise UserError(
                f"{what}: {asked} asked for, {obtained} obtained", "start it with accel_train --processes N"
            )
