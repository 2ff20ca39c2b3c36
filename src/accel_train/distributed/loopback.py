"""Keeps the sockets of a run off the network if all of its processes are on one machine."""

import errno
import os
import socket
import sys
from contextlib import suppress
from ipaddress import ip_address

from accel_train.distributed.environment import LAUNCHER_SET, local_world_size, world_size

_INTERFACES = {"gloo": ("GLOO_SOCKET_IFNAME", "lo"), "nccl": ("NCCL_SOCKET_IFNAME", "=lo")}
"""The variable by which each backend chooses its network interface, and the value for the loopback."""


def on_one_machine(address: str) -> bool:
    """Return whether the processes that meet at an address are all on this machine."""
    with suppress(ValueError):
        if ip_address(address).is_loopback:
            return True
    return address == "localhost" or local_world_size() == world_size()


def use_loopback() -> None:
    """Let Gloo and NCCL use the loopback interface, unless the user has named another one.

    Gloo would listen where the host's name leads to, NCCL on all interfaces.
    """
    if sys.platform != "linux":
        return
    for name, interface in _INTERFACES.values():
        if not os.environ.get(name, "").strip():
            os.environ[name] = interface
            os.environ[LAUNCHER_SET] = ",".join(filter(None, (os.environ.get(LAUNCHER_SET), name)))


def listen(address: str, port: int) -> int | None:
    """Return the descriptor of a socket that listens at an address; None if the address is not of this machine.

    Raises:
        OSError: another program listens there.
    """
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    for family, *_, place in sorted(found, key=lambda one: one[0] != socket.AF_INET6):  # where torch connects first
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen()
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRNOTAVAIL:
                raise
        else:
            return listener.detach()
    return None
