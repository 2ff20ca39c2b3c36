"""Knows whether all processes of a run are on one machine, and listens there for them alone."""

import errno
import socket
from contextlib import suppress
from ipaddress import ip_address

from accel_train.distributed.environment import local_world_size, world_size


def on_one_machine(address: str) -> bool:
    """Return whether the processes that meet at an address are all on this machine."""
    with suppress(ValueError):
        if ip_address(address).is_loopback:
            return True
    return address == "localhost" or local_world_size() == world_size()


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
