"""Starts the Accelerator and checks that what was asked for is what runs."""

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
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
from torch import nn

from accel_train.errors import UserError
from accel_train.launch import launched

T = TypeVar("T")

_AUTOCAST = {"fp32": "no", "tf32": "no", "fp64": "no", "bf16": "bf16", "fp16": "fp16"}
_FROM_LAUNCHER = {"no": "fp32", "bf16": "bf16", "fp16": "fp16"}
_BACKENDS = {"cpu": ("gloo", "mpi"), "cuda": ("nccl", "gloo"), "mps": ()}
_NOT_YET = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism config",
}
DTYPES = {"fp64": torch.float64}
"""Number format of weights and images, where it is not float32."""


def start(*, device: str, backend: str | None, precision: str | None, timeout: int) -> tuple[Accelerator, str]:
    """Collective: form the group of processes; return the Accelerator and the precision that runs.

    Raises:
        UserError: a launcher's or an option's wish cannot be met here.
    """
    _refuse_strategies(os.environ)
    kind = choose_device(device, os.environ)
    precision = choose_precision(precision, kind, os.environ)
    world_size = int(os.environ["WORLD_SIZE"]) if launched() else 1
    _refuse_backend(backend, kind, world_size)
    _set_float32(precision)
    # torch has renamed broadcast_buffers, accelerate 1.15 knows the old name alone.
    warnings.filterwarnings("ignore", message="`broadcast_buffers` is deprecated")
    process_group = InitProcessGroupKwargs(timeout=timedelta(seconds=timeout))
    if backend is not None:
        process_group.backend = backend
    accelerator = Accelerator(
        cpu=kind == "cpu",
        mixed_precision=_AUTOCAST[precision],
        rng_types=[],  # keys take the place of generators in step
        dataloader_config=DataLoaderConfiguration(
            split_batches=True, even_batches=False, use_seedable_sampler=False, non_blocking=True
        ),
        kwargs_handlers=[
            process_group,
            # RunningStatistics averages what changes; DDP would copy those of rank 0 over the others.
            DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True),
        ],
    )
    _check_obtained(accelerator, kind, backend, world_size, _AUTOCAST[precision])
    return accelerator, precision


def choose_device(asked: str, environ: Mapping[str, str]) -> str:
    """Return cpu, cuda or mps; auto prefers what computes fastest unless the launcher's config says CPU.

    Raises:
        UserError: the device is not there, or not once for each process of this machine.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        if environ.get("ACCELERATE_USE_CPU", "").lower() in ("true", "1", "yes"):
            return "cpu"
        asked = "cuda" if cuda else "mps" if mps else "cpu"
    if (asked == "cuda" and not cuda) or (asked == "mps" and not mps):
        raise UserError(f"--device {asked}, but torch finds no such device", "use --device cpu, or install its driver")
    local = int(environ.get("LOCAL_WORLD_SIZE", "1")) if launched(environ) else 1
    count = torch.cuda.device_count() if asked == "cuda" else 1
    if asked != "cpu" and local > count:
        raise UserError(
            f"{local} processes on this machine, but {count} {asked} devices", f"start {count}, or use --device cpu"
        )
    return asked


def choose_precision(asked: str | None, device: str, environ: Mapping[str, str]) -> str:
    """Return the precision that runs: a flag wins over the launcher's configuration, fp32 is the last resort.

    Raises:
        UserError: it would do nothing on this device, or does not exist.
    """
    source = "--precision"
    if asked is None:
        launcher = environ.get("ACCELERATE_MIXED_PRECISION", "no")
        source = "mixed_precision of the launcher's configuration:"
        if launcher not in _FROM_LAUNCHER:
            raise UserError(f"{source} {launcher} is not supported", f"choose {', '.join(_FROM_LAUNCHER)}")
        asked = _FROM_LAUNCHER[launcher]
    if asked in ("fp16", "tf32") and device != "cuda":
        raise UserError(f"{source} {asked} does nothing on {device}", "use bf16 or fp32")
    if asked == "fp64" and device == "mps":
        raise UserError("--precision fp64 does not exist on mps", "use --device cpu")
    return asked


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


def strategy(accelerator: Accelerator) -> str:
    """Name how the work is shared."""
    return "DDP" if accelerator.num_processes > 1 else "single process"


def stop() -> None:
    """Leave the group of processes, however the run ended."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        with suppress(RuntimeError):  # a peer that has died is no news here
            torch.distributed.destroy_process_group()


def _refuse_strategies(environ: Mapping[str, str]) -> None:
    for variable, name in _NOT_YET.items():
        if environ.get(variable, "").lower() in ("true", "1", "yes"):
            raise UserError(
                f"the launcher's configuration asks for {name}, which is not supported yet",
                "use distributed_type MULTI_GPU (DDP), as in accelerate_configs/ddp.yaml",
            )


def _refuse_backend(backend: str | None, device: str, world_size: int) -> None:
    if backend is None:
        if world_size > 1 and not _BACKENDS[device]:
            raise UserError(f"{world_size} processes cannot share {device}", "use one process, or --device cpu")
        return
    if world_size == 1:
        raise UserError(f"--backend {backend} has no effect on a single process", "leave it out, or add --processes")
    there = {
        "gloo": torch.distributed.is_gloo_available(),
        "nccl": torch.distributed.is_nccl_available(),
        "mpi": torch.distributed.is_mpi_available(),
    }
    if not there[backend]:
        raise UserError(f"--backend {backend}, but this torch was built without it", "leave it out")
    if backend not in _BACKENDS[device]:
        raise UserError(f"--backend {backend} does not serve {device}", f"choose {' or '.join(_BACKENDS[device])}")


def _set_float32(precision: str) -> None:
    wanted = "tf32" if precision == "tf32" else "ieee"
    torch.backends.cuda.matmul.fp32_precision = wanted
    torch.backends.cudnn.conv.fp32_precision = wanted  # type: ignore[attr-defined]


def _check_obtained(accelerator: Accelerator, device: str, backend: str | None, world_size: int, autocast: str) -> None:
    compared = {
        "processes": (world_size, accelerator.num_processes),
        "device": (device, accelerator.device.type),
        "mixed precision": (autocast, accelerator.mixed_precision),
        "backend": (backend or accelerator.state.backend, accelerator.state.backend),
    }
    for what, (asked, obtained) in compared.items():
        if asked != obtained:
            raise UserError(
                f"{what}: {asked} asked for, {obtained} obtained", "start it with accel_train --processes N"
            )
