"""Forms the process group of a run, or reports the ranks that have not joined."""

import json
import os
import resource
import socket
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch.distributed import PrefixStore, ProcessGroup, Store, TCPStore  # type: ignore[attr-defined]

from accel_train.distributed.environment import JOB_ID, world_size
from accel_train.distributed.environment_check import check_interface
from accel_train.distributed.loopback import listen, on_one_machine, use_loopback
from accel_train.errors import LocalError, UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")

_HINT = (
    "start all of them with the same MASTER_ADDR and MASTER_PORT, raise --timeout, "
    "or name the network interface in GLOO_SOCKET_IFNAME"
)
_FILES, _FILES_PER_PROCESS = 64, 4
"""Open files that a process needs; groups of their own are used for training, saving and agreement."""
_MOST_NAMED = 8
_POLL_SECONDS = 0.05
_SECONDS_TO_END = 0.02
_SLACK = 30
"""Extra seconds before the backend times out: by then the watchdog has reported and killed the hung rank."""


def join(backend: str, timeout: int) -> None:
    """Collective: form the group of all processes that the launcher started, waiting up to `timeout` seconds.

    Raises:
        UserError: some have not joined or cannot be reached, or the environment does not say where to meet.
    """
    _check_open_files()
    if on_one_machine(_meeting_point()[0]):
        use_loopback()
    for variable in ("GLOO_SOCKET_IFNAME", *(["NCCL_SOCKET_IFNAME"] if backend == "nccl" else [])):
        check_interface(variable)
    rank, processes = int(os.environ["RANK"]), world_size()
    deadline = time.monotonic() + timeout
    store = _of_this_group(_open_store(rank, timeout, deadline), rank, joins=1)
    _wait_for_all(store, rank, processes, timeout, deadline)
    try:
        torch.distributed.init_process_group(
            backend, store=store, rank=rank, world_size=processes, timeout=timedelta(seconds=timeout + _SLACK)
        )
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise LocalError(f"rank {rank} cannot reach the other processes: {reason}", _HINT) from error
    _wait_for_threads_before_forks()


def _check_open_files() -> None:
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
    address, port = _meeting_point()
    span = timedelta(seconds=timeout)
    store = TCPStore(address, port, is_master=False, timeout=span, wait_for_workers=False)
    return _of_this_group(store, int(os.environ["RANK"]), joins=0)


def host_group(timeout_seconds: float) -> ProcessGroup | None:
    """Collective: return a new group of all processes for small values on the CPU; None for a single process."""
    if not torch.distributed.is_initialized():
        return None
    backend = "mpi" if torch.distributed.get_backend() == "mpi" else "gloo"
    group = torch.distributed.new_group(backend=backend, timeout=timedelta(seconds=timeout_seconds + _SLACK))
    assert isinstance(group, ProcessGroup)
    return group


def exchange(group: ProcessGroup | None, numbers: list[int]) -> list[list[int]]:
    """Collective: return the numbers of every process, by rank; all give the same count, of 64 bits at most."""
    if group is None:
        return [numbers]
    own = torch.tensor(numbers, dtype=torch.int64)
    everyones = list(torch.empty(group.size(), len(numbers), dtype=torch.int64))
    torch.distributed.all_gather(everyones, own, group=group)
    return [each.tolist() for each in everyones]


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


def sends_gpu_tensors() -> bool:
    """Return whether the backend sends from GPU memory; Gloo does not."""
    return torch.distributed.get_backend() != "gloo"


def exchange_tensors(sent: list[list[Tensor]], received: list[list[Tensor]]) -> None:
    """Collective: send a list of tensors to each other process and receive one from each; lists are by rank."""
    own_rank = torch.distributed.get_rank()
    operations = [
        torch.distributed.P2POp(operation, tensor, rank)
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


def _of_this_group(store: Store, rank: int, joins: int) -> Store:
    """Hide the addresses of other process groups: of the attempt before a restart, and of an earlier run of this one.

    `joins` is added to the number of times that this rank has joined a group.
    """
    attempt = PrefixStore(f"attempt{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    return PrefixStore(f"join{attempt.add(f'joins{rank}', joins)}", attempt)


def _meeting_point() -> tuple[str, int]:
    """Return address and port of the store."""
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name, "").strip():
            raise UserError(
                f"RANK and WORLD_SIZE are set, but {name} is not", f"set {name}, the same for all processes"
            )
    return os.environ["MASTER_ADDR"].strip(), int(os.environ["MASTER_PORT"])


def _open_store(rank: int, timeout: int, deadline: float) -> Store:
    """Connect to the store; rank 0 opens it unless the launcher has."""
    address, port = _meeting_point()
    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    # torch would wait too, but print a C++ stack trace in the end.
    if not hosts and not _answers(address, port, deadline):
        raise LocalError(f"rank 0 did not join within {timeout} s: nothing listens at {address}:{port}", _HINT)
    span = timedelta(seconds=timeout)
    job = os.environ.get(JOB_ID, "")
    try:
        if not hosts:
            store = TCPStore(address, port, is_master=False, timeout=span, wait_for_workers=False)
        else:
            store = _hosted_store(address, port, span)
            store.set("job", job)
        if job and (other := store.get("job").decode()) != job:
            raise RuntimeError(f"job {other} meets there, and this is job {job}")
    except (RuntimeError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise LocalError(
            f"rank {rank} cannot use {address}:{port}: {reason}", "set MASTER_PORT to a free one"
        ) from None
    return store


@cache
def _hosted_store(address: str, port: int, timeout: timedelta) -> TCPStore:
    """Open the store once: other ranks may join the next group while this one is still leaving the last.

    torch by itself would listen on all interfaces, and print a C++ stack trace if there is no such address.
    """
    socket.getaddrinfo(address, port)
    listener = listen(address, port) if on_one_machine(address) else None
    return TCPStore(
        address,
        port,
        is_master=True,
        timeout=timeout,
        wait_for_workers=False,
        multi_tenant=True,
        master_listen_fd=listener,
    )


def _answers(address: str, port: int, deadline: float) -> bool:
    while (left := deadline - time.monotonic()) > 0:
        with suppress(OSError), socket.create_connection((address, port), timeout=left):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _wait_for_all(store: Store, rank: int, world_size: int, timeout: int, deadline: float) -> None:
    names = [f"joined{other}" for other in range(world_size)]
    try:
        store.set(names[rank], "")
        while not store.check(names):  # wait() would print warnings
            if time.monotonic() > deadline:
                raise _absence([other for other, name in enumerate(names) if not store.check([name])], timeout)
            time.sleep(_POLL_SECONDS)
    except RuntimeError:  # rank 0 has timed out first, and reported the missing ranks
        raise UserError("the other ranks have stopped waiting", _HINT) from None


def _absence(missing: list[int], timeout: int) -> UserError:
    named = ", ".join(map(str, missing[:_MOST_NAMED])) + ", …" * (len(missing) > _MOST_NAMED)
    message = f"rank{'s' if len(missing) > 1 else ''} {named} did not join within {timeout} s"
    return (LocalError if 0 in missing else UserError)(message, _HINT)  # else rank 0 reports it
