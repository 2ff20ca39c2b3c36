"""Starts the Accelerator and checks that what was asked for is what runs."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, data_loader
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import (
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    InitProcessGroupKwargs,
    broadcast_object_list,
)
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from accel_train.distributed import process_group
from accel_train.distributed.accelerate_launch import asked_of_accelerate, check_unheard
from accel_train.distributed.environment import launched_rank, local_rank, local_world_size, world_size
from accel_train.distributed.environment_check import check_environment
from accel_train.distributed.ranks import device_name, exchange_ranks
from accel_train.distributed.resolve import choose_backend, choose_device, choose_precision, choose_strategy
from accel_train.distributed.strategies import load_strategy
from accel_train.distributed.strategies.base import Strategy
from accel_train.errors import UserError
from accel_train.events import RankStart

T = TypeVar("T")

_HEARD = (
    *("ACCELERATE_", "FSDP_", "MEGATRON_LM_", "PARALLELISM_CONFIG_"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"),
)
_SCHEDULERS = ("PMI_", "OMPI_", "MV2_")
"""Prefixes of variables that Accelerate obeys (1.15); those of schedulers decide only where RANK is unset."""
_AUTOCAST = {"fp32": "no", "tf32": "no", "fp64": "no", "bf16": "bf16", "fp16": "fp16"}


@dataclass(frozen=True)
class Processes:
    """The processes of a run as this one sees them; it is number `rank` of `count`."""

    accelerator: Accelerator
    strategy: Strategy
    precision: str
    group: ProcessGroup | None
    """Exchanges small values on the CPU, see :func:`process_group.exchange`; None for a single process."""
    ranks: tuple[RankStart, ...]

    @property
    def rank(self) -> int:
        return int(self.accelerator.process_index)

    @property
    def count(self) -> int:
        return int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        return bool(self.accelerator.is_main_process)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.accelerator.device
        return device

    @property
    def device_name(self) -> str:
        """The device, with its index if there can be several."""
        return device_name(self.device)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of weights and images."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    @property
    def strategy_name(self) -> str:
        return self.strategy.describe(self.count)

    def on_main(self, function: Callable[[], T]) -> T:
        """Collective: call a function on rank 0 alone and return its result, or raise its UserError, on all ranks."""
        outcome: list[Any] = [None]
        if self.is_main:
            try:
                outcome = [function()]
            except UserError as error:
                outcome = [error]
        broadcast_object_list(outcome)
        if isinstance(outcome[0], UserError):
            raise outcome[0]
        result: T = outcome[0]
        return result

    def full_weights(self, model: nn.Module) -> dict[str, Tensor]:
        """Collective: return on rank 0 weights that plain torch loads with `strict=True`; nothing on other ranks.

        The tensors are unsharded, contiguous and on the CPU, and do not share memory.
        """
        weights = {}
        # One at a time: all at once may not fit on the device.
        for name, tensor in self.strategy.full_state(self.strategy.plain_model(self.accelerator, model)):
            if self.is_main:
                weights[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
        return weights


def start(
    *,
    device: str,
    backend: str | None,
    precision: str | None,
    timeout: int,
    strategy: str = "auto",
    options: Mapping[str, Any] = MappingProxyType({}),
    common: Mapping[str, str] = MappingProxyType({}),
) -> Processes:
    """Collective: form the process group and make the Accelerator; `options` are those of the strategy.

    All processes must have equal values in `common`, by the names that messages have.

    Raises:
        UserError: what a launcher or an option asks for cannot be had here, or a process has not joined.
    """
    launcher = asked_of_accelerate()
    check_unheard(launcher)
    kind = choose_device(device, os.environ, launcher.use_cpu if launcher else None)
    precision = choose_precision(precision, kind, os.environ)
    check_environment(applies=f"{precision} on a {'CPU' if kind == 'cpu' else 'GPU'}")
    processes = world_size()
    chosen = load_strategy(*choose_strategy(strategy, options, processes, os.environ))
    chosen.check(processes, kind, os.environ)
    backend = choose_backend(backend, kind, processes)
    _set_float32(precision)
    if backend not in (None, "mpi"):  # Accelerate knows how MPI processes find each other
        obtained = {"device": kind, "precision": precision, "strategy": chosen.name, "backend": str(backend)}
        process_group.join(backend, timeout, {**common, **obtained, **{name: str(options[name]) for name in options}})
    accelerator = _accelerator(kind, backend, _AUTOCAST[precision], timeout, chosen)
    _check_obtained(accelerator, kind, backend, processes, _AUTOCAST[precision])
    if not chosen.is_active(accelerator):
        raise UserError(
            f"strategy: {chosen.name} asked for, {accelerator.distributed_type} obtained",
            "start it with accel_train --processes N",
        )
    group = process_group.host_group(timeout)
    ranks = exchange_ranks(group, accelerator.device, backend, chosen.place(accelerator.process_index))
    return Processes(accelerator, chosen, precision, group, ranks)


def stop() -> None:
    """Leave the process group, and reset Accelerate so that this process can start again."""
    process_group.leave()
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@contextmanager
def _hide_environment() -> Iterator[None]:
    """Show Accelerate the place of this process and its threads, and nothing else that it would obey.

    What was asked for in the environment is obeyed here, refused or harmless: see environment_table.py.
    """
    place = {}
    if world_size() > 1:
        place = {"RANK": launched_rank(), "LOCAL_RANK": local_rank()}
        place |= {"WORLD_SIZE": world_size(), "LOCAL_WORLD_SIZE": local_world_size()}
    place["OMP_NUM_THREADS"] = torch.get_num_threads()  # if it is unset, Accelerate changes it
    hidden = _HEARD if place.get("WORLD_SIZE") else (*_HEARD, *_SCHEDULERS)
    asked = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(hidden)}
    os.environ |= {name: str(number) for name, number in place.items()}
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(hidden)]:
            del os.environ[name]
        os.environ |= asked


class _WithoutDatasets(Accelerator):  # type: ignore[misc]
    """Prepares loaders without importing Hugging Face datasets, which takes 0.8 s and 1 GiB of address space (1.15)."""

    def prepare_data_loader(self, *args: Any, **kwargs: Any) -> Any:
        is_available = data_loader.is_datasets_available
        data_loader.is_datasets_available = lambda: False  # none of our loaders reads one
        try:
            return super().prepare_data_loader(*args, **kwargs)
        finally:
            data_loader.is_datasets_available = is_available


def _accelerator(kind: str, backend: str | None, autocast: str, timeout: int, strategy: Strategy) -> Accelerator:
    # torch has renamed broadcast_buffers, accelerate 1.15 knows the old name only.
    warnings.filterwarnings("ignore", message="`broadcast_buffers` is deprecated")
    group = InitProcessGroupKwargs(timeout=timedelta(seconds=timeout))
    if backend is not None:
        group.backend = backend
    asked = os.environ.copy()
    with _hide_environment():
        plugin = strategy.plugin(asked)
        accelerator = _WithoutDatasets(
            cpu=kind == "cpu",
            mixed_precision=autocast,
            fsdp_plugin=plugin,
            rng_types=[],  # random numbers come from keys: no generators to synchronize
            dataloader_config=DataLoaderConfiguration(
                split_batches=True,
                even_batches=False,
                use_seedable_sampler=False,
                non_blocking=kind == "cuda",  # from pinned memory: the memory of loader workers is reused
            ),
            kwargs_handlers=[
                group,
                # training/batch_norm.py averages the buffers; DDP would copy those of rank 0 over the others.
                DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True),
            ],
        )
    strategy.activate(accelerator, plugin)
    return accelerator


def _set_float32(precision: str) -> None:
    # The newer fp32_precision makes the getters of these raise, and torch's compiler calls them (2.14).
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def _check_obtained(accelerator: Accelerator, device: str, backend: str | None, world_size: int, autocast: str) -> None:
    obtained_backend = torch.distributed.get_backend() if world_size > 1 else None
    compared = {
        "processes": (world_size, accelerator.num_processes),
        "device": (device, accelerator.device.type),
        "mixed precision": (autocast, accelerator.mixed_precision),
        "backend": (backend, obtained_backend),
        "Accelerate's backend": (obtained_backend, accelerator.state.backend if world_size > 1 else None),
    }
    for what, (asked, obtained) in compared.items():
        if asked != obtained:
            raise UserError(
                f"{what}: {asked} asked for, {obtained} obtained", "start it with accel_train --processes N"
            )
