"""Chooses device, precision, strategy and backend from options and launcher, or reports why it cannot.

An option wins over the launcher's configuration.
"""

from collections.abc import Mapping
from typing import Any

import torch

from accel_train.config.strategies import check_options
from accel_train.distributed.environment import launched
from accel_train.distributed.environment_table import HYBRID_SHARD
from accel_train.distributed.environment_values import flag
from accel_train.errors import UserError
from accel_train.loggers.text import quantity

_FROM_LAUNCHER = {"no": "fp32", "bf16": "bf16", "fp16": "fp16"}
_BACKENDS = {"cpu": ("gloo", "mpi"), "cuda": ("nccl", "gloo"), "mps": ()}
"""By device; the first is the default."""


def choose_device(asked: str, environ: Mapping[str, str], use_cpu: bool | None = None) -> str:
    """Return cpu, cuda or mps; auto prefers the accelerator unless the launcher's configuration says CPU.

    `use_cpu` is what the configuration file of `accelerate launch` says, if there is one.

    Raises:
        UserError: there is no such device, or fewer than processes on this machine.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if asked == "auto":
        if use_cpu or flag(environ.get("ACCELERATE_USE_CPU", "")):
            return "cpu"
        asked = "cuda" if cuda else "mps" if mps else "cpu"
        if asked == "cpu" and use_cpu is False:
            raise UserError(
                "the launcher's configuration says use_cpu: false, but torch finds no GPU",
                "set use_cpu: true in it, or add --device cpu",
            )
    if (asked == "cuda" and not cuda) or (asked == "mps" and not mps):
        raise UserError(f"--device {asked}, but torch finds no such device", "use --device cpu, or install its driver")
    local = int(environ.get("LOCAL_WORLD_SIZE", "").strip() or 1) if launched(environ) else 1
    count = torch.cuda.device_count() if asked == "cuda" else 1
    if asked != "cpu" and local > count:
        raise UserError(
            f"{local} processes on this machine, but {quantity(count, f'{asked} device')}",
            f"start {count}, or use --device cpu",
        )
    return asked


def choose_precision(asked: str | None, device: str, environ: Mapping[str, str]) -> str:
    """Return the precision that runs: the option's, else the launcher's, else fp32.

    Raises:
        UserError: it has no effect on this device, or does not exist.
    """
    source = "--precision"
    if asked is None:
        launcher = environ.get("ACCELERATE_MIXED_PRECISION", "").strip().lower() or "no"
        source = "mixed_precision of the launcher's configuration:"
        if launcher not in _FROM_LAUNCHER:
            raise UserError(f"{source} {launcher} is not supported", f"choose {', '.join(_FROM_LAUNCHER)}")
        asked = _FROM_LAUNCHER[launcher]
    if asked in ("fp16", "tf32") and device != "cuda":
        raise UserError(f"{source} {asked} has no effect on {device}", "use bf16 or fp32")
    if asked == "fp64" and device == "mps":
        raise UserError("--precision fp64 does not exist on mps", "use --device cpu")
    return asked


def choose_strategy(
    asked: str, given: Mapping[str, Any], processes: int, environ: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a strategy, `given` and the launcher's; auto is the launcher's, or ddp.

    Raises:
        UserError: an option has no effect or is missing, or the launcher's configuration contradicts itself.
    """
    options = dict(given)
    if asked == "auto":
        asked, of_launcher = _strategy_of_launcher(processes, environ)
        options = of_launcher | options
    check_options(asked, options)
    return asked, options


def _strategy_of_launcher(processes: int, environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the strategy that Accelerate's variables ask for, and its options."""
    replicas, shards = (int(environ.get(f"PARALLELISM_CONFIG_DP_{of}_SIZE") or 1) for of in ("REPLICATE", "SHARD"))
    sizes = f"dp_replicate_size {replicas} and dp_shard_size {shards} of the launcher's configuration"
    if not flag(environ.get("ACCELERATE_USE_FSDP", "")):
        if replicas * shards > 1:
            raise UserError(f"{sizes} have no effect without FSDP", "set distributed_type: FSDP, fsdp_version: 2")
        return "ddp", {}
    if replicas * shards not in (1, processes):
        raise UserError(
            f"{sizes} are for {quantity(replicas * shards, 'process', 'processes')}, and this run has {processes}",
            "let their product be num_processes",
        )
    if replicas > 1:
        return "hsdp", {"shard_size": shards}
    sharding = environ.get("FSDP_SHARDING_STRATEGY", "").strip()
    if sharding.lower() in HYBRID_SHARD:
        of_machine = int(environ.get("LOCAL_WORLD_SIZE") or 1)
        if of_machine == processes:
            raise UserError(
                f"FSDP_SHARDING_STRATEGY={sharding} makes each machine a replica, and this run has one machine",
                "set fsdp_sharding_strategy: FULL_SHARD, or add --strategy hsdp --shard-size N",
            )
        return "hsdp", {"shard_size": of_machine}
    return "fsdp2", {}


def choose_backend(asked: str | None, device: str, world_size: int) -> str | None:
    """Return the communication backend; None for a single process.

    Raises:
        UserError: it is not available, does not support this device, or has no effect.
    """
    if world_size == 1:
        if asked is None:
            return None
        raise UserError(f"--backend {asked} has no effect on a single process", "leave it out, or add --processes")
    if not _BACKENDS[device]:
        raise UserError(f"{world_size} processes cannot share {device}", "use one process, or --device cpu")
    if asked is None:
        return _BACKENDS[device][0]
    there = {
        "gloo": torch.distributed.is_gloo_available(),
        "nccl": torch.distributed.is_nccl_available(),
        "mpi": torch.distributed.is_mpi_available(),
    }
    if not there[asked]:
        raise UserError(f"--backend {asked}, but this torch was built without it", "leave it out")
    if asked not in _BACKENDS[device]:
        raise UserError(f"--backend {asked} does not support {device}", f"choose {' or '.join(_BACKENDS[device])}")
    return asked
