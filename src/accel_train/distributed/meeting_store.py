"""Opens the store in which the processes of a run meet, at MASTER_ADDR and MASTER_PORT."""

import os
import socket
import time
from datetime import timedelta
from functools import cache
from ipaddress import ip_address

from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from accel_train.distributed.environment import JOB_ID
from accel_train.distributed.loopback import listen, on_one_machine
from accel_train.distributed.rendezvous import HINT
from accel_train.errors import LocalError, UserError

_POLL_SECONDS = 0.05


def meeting_point() -> tuple[str, int]:
    """Return address and port of the store."""
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name, "").strip():
            raise UserError(
                f"RANK and WORLD_SIZE are set, but {name} is not", f"set {name}, the same for all processes"
            )
    return os.environ["MASTER_ADDR"].strip(), int(os.environ["MASTER_PORT"])


def open_store(rank: int, timeout: int, deadline: float) -> Store:
    """Connect to the store by a deadline, `timeout` seconds after the start; rank 0 opens it unless the launcher has.

    Raises:
        UserError: nothing answers there, or something else.
    """
    address, port = meeting_point()
    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    # torch would wait too, but print a C++ stack trace in the end.
    if not hosts and (problem := _unreachable(address, port, deadline)):
        raise LocalError(f"rank 0 did not join within {timeout} s: {problem}", HINT)
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


def _unreachable(address: str, port: int, deadline: float) -> str:
    """Wait until something listens at an address; return why not if it does not."""
    problem = ""
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((address, port), timeout=left):
                return ""
        except socket.gaierror as error:
            problem = f" ({socket.gethostname()} does not know that name: {error.strerror})"
        except OSError:
            problem = _if_loopback(address)
        time.sleep(_POLL_SECONDS)
    return f"nothing listens at {address}:{port}{problem}"


def _if_loopback(address: str) -> str:
    """Return what is wrong with a name for this machine, if processes elsewhere meet there."""
    if on_one_machine(address):
        return ""
    found = str(socket.getaddrinfo(address, None)[0][4][0]).partition("%")[0]
    if not ip_address(found).is_loopback:
        return ""
    return f" ({found}, which is {socket.gethostname()} itself: see its /etc/hosts)"
