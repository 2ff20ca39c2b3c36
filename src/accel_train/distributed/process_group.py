"""Brings the processes of a run together, or says which of them have not come."""

import os
import socket
import time
from contextlib import suppress
from datetime import timedelta

import torch
from torch.distributed import PrefixStore, ProcessGroup, Store, TCPStore  # type: ignore[attr-defined]

from accel_train.errors import LocalError, UserError

_HINT = (
    "start all of them with the same MASTER_ADDR and MASTER_PORT, raise --timeout, "
    "or name the network interface in GLOO_SOCKET_IFNAME"
)
_MOST_NAMED = 8
_POLL_SECONDS = 0.05
_SECONDS_TO_END = 0.02
_SLACK = 30
"""Seconds more than asked for before the backend gives up: by then the peers have named and ended who hangs."""


def join(backend: str, timeout: int) -> None:
    """Collective: form the group of all processes that the launcher has started, waiting `timeout` seconds for each.

    Raises:
        UserError: some have not come, or cannot be reached.
    """
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    deadline = time.monotonic() + timeout
    store = _of_this_attempt(_open_store(rank, timeout, deadline))
    _wait_for_all(store, rank, world_size, timeout, deadline)
    try:
        torch.distributed.init_process_group(
            backend, store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=timeout + _SLACK)
        )
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise LocalError(f"rank {rank} cannot reach the other processes: {reason}", _HINT) from error
    os.register_at_fork(before=_let_threads_end)


def _let_threads_end() -> None:
    """Let the backend's threads drop what they hold: a loader worker that is forked just then hangs at once.

    (CPython issue 112275, seen with 3.11.7: a lock that such a thread takes for a moment stays taken in the fork.)
    """
    time.sleep(_SECONDS_TO_END)


def connect(timeout: int) -> Store:
    """Return a connection of its own to where the processes of the run have met."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    span = timedelta(seconds=timeout)
    return _of_this_attempt(TCPStore(address, port, is_master=False, timeout=span, wait_for_workers=False))


def host_group(timeout_seconds: float) -> ProcessGroup | None:
    """Collective: return a group of all processes that exchanges small facts on the CPU; None if there is one alone."""
    if not torch.distributed.is_initialized():
        return None
    backend = "mpi" if torch.distributed.get_backend() == "mpi" else "gloo"
    group = torch.distributed.new_group(backend=backend, timeout=timedelta(seconds=timeout_seconds + _SLACK))
    assert isinstance(group, ProcessGroup)
    return group


def exchange(group: ProcessGroup | None, numbers: list[int]) -> list[list[int]]:
    """Collective: return the numbers of every process, by rank; each gives equally many, of 64 bits at most."""
    if group is None:
        return [numbers]
    own = torch.tensor(numbers, dtype=torch.int64)
    everyones = list(torch.empty(group.size(), len(numbers), dtype=torch.int64))
    torch.distributed.all_gather(everyones, own, group=group)
    return [each.tolist() for each in everyones]


def leave() -> None:
    """Leave the group of processes, however the run ended."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        with suppress(RuntimeError):  # a peer that has died is no news here
            torch.distributed.destroy_process_group()


def _of_this_attempt(store: Store) -> Store:
    """Keep processes that a launcher has restarted from the addresses of the attempt before."""
    return PrefixStore(f"attempt{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _open_store(rank: int, timeout: int, deadline: float) -> Store:
    """Connect to where the processes meet; rank 0 opens it unless the launcher has."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    # torch would wait as well, but print a stack of C++ calls in the end.
    if not hosts and not _answers(address, port, deadline):
        raise LocalError(f"rank 0 did not join within {timeout} s: nobody is at {address}:{port}", _HINT)
    span = timedelta(seconds=timeout)
    try:
        return TCPStore(address, port, is_master=hosts, timeout=span, wait_for_workers=False, multi_tenant=hosts)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise LocalError(
            f"rank {rank} cannot use {address}:{port}: {reason}", "set MASTER_PORT to a free one"
        ) from None


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
    except RuntimeError:  # rank 0 has given up first, and reported who is missing
        raise UserError("the processes that had come did not wait any longer", _HINT) from None


def _absence(missing: list[int], timeout: int) -> UserError:
    named = ", ".join(map(str, missing[:_MOST_NAMED])) + ", …" * (len(missing) > _MOST_NAMED)
    message = f"rank{'s' if len(missing) > 1 else ''} {named} did not join within {timeout} s"
    return (LocalError if 0 in missing else UserError)(message, _HINT)  # else rank 0 reports it
