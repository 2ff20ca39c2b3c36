"""Forms the process group of a run, or reports the ranks that have not joined."""

import json
import os
import resource
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import accelerate
import torch
from torch import Tensor
from torch.distributed import ProcessGroup, Store, TCPStore  # type: ignore[attr-defined]

from accel_train.distributed.environment import machines, world_size
from accel_train.distributed.interfaces import check_named_interfaces, choose_interface
from accel_train.distributed.meeting_store import meeting_point, open_store
from accel_train.distributed.rendezvous import HINT, Introduction, meet, met_in
from accel_train.errors import LocalError, UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")

_FILES, _FILES_PER_PROCESS = 64, 4
"""Open files that a process needs; groups of their own are used for training, saving and agreement."""
_POLL_SECONDS = 0.05
_SECONDS_TO_END = 0.02
_SLACK = 30
"""Extra seconds before the backend times out: by then the watchdog has reported and killed the hung rank."""


def join(backend: str, timeout: int, common: Mapping[str, str] = MappingProxyType({})) -> None:
    """Collective: form the group of all processes that the launcher started, waiting up to `timeout` seconds.

    `common` is what they must have in common besides their number and the versions, by name.

    Raises:
        UserError: some have not joined or cannot be reached, one does not belong to the run, or the environment does
            not say where to meet.
    """
    check_open_files()
    check_named_interfaces(backend)
    rank, processes = int(os.environ["RANK"]), world_size()
    deadline = time.monotonic() + timeout
    store = open_store(rank, timeout, deadline)
    choose_interface(meeting_point()[0])
    everyones = {"num_processes": str(processes), "num_machines": str(machines()), **_versions(), **common}
    own = Introduction(rank, socket.gethostname(), os.getpid(), everyones)
    try:
        group = meet(store, own, processes, timeout, deadline)
    except RuntimeError:  # of torch's store
        raise LocalError(f"rank 0 has left before {own} could join", HINT) from None
    try:
        torch.distributed.init_process_group(
            backend, store=group, rank=rank, world_size=processes, timeout=timedelta(seconds=timeout + _SLACK)
        )
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise LocalError(f"rank {rank} cannot reach the other processes: {reason}", HINT) from error
    _wait_for_threads_before_forks()


def check_open_files() -> None:
    """Check that this process may open a socket to each other one; Gloo aborts, or waits, if it may not."""
    limit, needed = resource.getrlimit(resource.RLIMIT_NOFILE)[0], _FILES + _FILES_PER_PROCESS * world_size()
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise UserError(
            f"this process may open {limit} files (ulimit -n), a run of {world_size()} processes needs {needed}",
            "raise the limit with ulimit -n 1024",
        )


@cache
def _wait_for_threads_before_forks() -> None:
    os.register_at_fork(before=_wait_for_threads)


def _wait_for_threads() -> None:
    """Wait until the backend's threads have released their locks: a loader worker forked before that would hang.

    CPython issue 112275, seen with 3.11.7: a lock that such a thread holds for a moment stays locked in the fork.
    """
    time.sleep(_SECONDS_TO_END)


def connect(timeout: int) -> Store:
    """Return a new connection to the store of the process group."""
    address, port = meeting_point()
    span = timedelta(seconds=timeout)
    store = TCPStore(address, port, is_master=False, timeout=span, wait_for_workers=False)
    return met_in(store, int(os.environ["RANK"]))


def host_group(timeout_seconds: float, ranks: Sequence[int] | None = None) -> ProcessGroup | None:
    """Collective: return a new group of these processes, or of all, for values on the CPU; None on any other."""
    if not torch.distributed.is_initialized():
        return None
    return new_group(timeout_seconds, ranks, "mpi" if torch.distributed.get_backend() == "mpi" else "gloo")


def new_group(timeout_seconds: float, ranks: Sequence[int] | None, backend: str | None = None) -> ProcessGroup | None:
    """Collective: return a new group of these processes; None on any other."""
    limit = timedelta(seconds=timeout_seconds + _SLACK)
    group = torch.distributed.new_group(ranks, backend=backend, timeout=limit)
    return group if isinstance(group, ProcessGroup) else None


def exchange(group: ProcessGroup | None, numbers: list[int]) -> list[list[int]]:
    """Collective: return the numbers of every process, by rank; all give the same count, of 64 bits at most."""
    if group is None:
        return [numbers]
    own = torch.tensor(numbers, dtype=torch.int64)
    everyones = list(torch.empty(group.size(), len(numbers), dtype=torch.int64))
    torch.distributed.all_gather(everyones, own, group=group)
    return [each.tolist() for each in everyones]


def exchange_equal(group: ProcessGroup | None, tensor: Tensor) -> list[Tensor]:
    """Collective: return the CPU tensor of every process, by rank; all have the same shape and dtype."""
    everyones = [torch.empty_like(tensor) for _ in range(group.size())] if group else [tensor]
    if group:
        torch.distributed.all_gather(everyones, tensor, group=group)
    return everyones


def exchange_texts(group: ProcessGroup | None, text: str) -> list[str]:
    """Collective: return the text of every process, by rank."""
    texts = [text] * (group.size() if group else 1)
    if group:
        torch.distributed.all_gather_object(texts, text, group=group)
    return texts


def exchange_records(group: ProcessGroup | None, record: Record) -> tuple[Record, ...]:
    """Collective: return the record of every process, by rank: a dataclass of JSON values."""
    texts = exchange_texts(group, json.dumps(asdict(record)))
    return tuple(type(record)(**json.loads(text)) for text in texts)


def sum_over(group: ProcessGroup | None, tensor: Tensor) -> None:
    """Collective: add the tensors of the processes of a group, or of all, in place."""
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(tensor, group=group)


def sends_gpu_tensors() -> bool:
    """Return whether the backend sends from GPU memory; Gloo does not."""
    return torch.distributed.get_backend() != "gloo"


def exchange_tensors(sent: list[list[Tensor]], received: list[list[Tensor]], group: ProcessGroup | None) -> None:
    """Collective: send a list of tensors to each process of a group, or of all, and receive one; lists are by rank."""
    own_rank = torch.distributed.get_rank(group)
    operations = [
        torch.distributed.P2POp(operation, tensor, group=group, group_peer=rank)
        for operation, lists in ((torch.distributed.irecv, received), (torch.distributed.isend, sent))
        for rank, tensors in enumerate(lists)
        if rank != own_rank
        for tensor in tensors
    ]
    for work in torch.distributed.batch_isend_irecv(operations):
        work.wait()


def leave() -> None:
    """Leave the process group, however the run ended."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        with suppress(RuntimeError):  # a dead peer was reported before
            torch.distributed.destroy_process_group()


def _versions() -> dict[str, str]:
    """Return versions that all processes must have."""
    libraries = {module.__name__: module.__version__ for module in (torch, accelerate)}
    return {"accel_train": version("accel_train"), **libraries}
