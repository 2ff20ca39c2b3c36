"""Chooses the network interface by which the processes of a run talk.

On one machine that is the loopback. Over several it is the one that leads to MASTER_ADDR, or has that address: Gloo
would take the one that the host's own name leads to, which is often the loopback, and NCCL whatever it finds.
"""

import os
import socket
import sys
from collections.abc import Mapping
from ipaddress import ip_address

import psutil

from accel_train.distributed.environment import LAUNCHER_SET
from accel_train.distributed.environment_check import check_interface
from accel_train.distributed.loopback import on_one_machine
from accel_train.errors import LocalError

_VARIABLES = {"GLOO_SOCKET_IFNAME": "{}", "NCCL_SOCKET_IFNAME": "={}"}
"""The variable by which each backend chooses its interface, and the form of its value."""
_LOOPBACK = "lo"
_ANY_PORT = 9


def check_named_interfaces(backend: str) -> None:
    """Check that this machine has the interfaces that the user has named for a backend, and for Gloo, always used.

    Raises:
        UserError: it has not.
    """
    for variable in ("GLOO_SOCKET_IFNAME", *(["NCCL_SOCKET_IFNAME"] if backend == "nccl" else [])):
        check_interface(variable)


def choose_interface(address: str) -> None:
    """Let Gloo and NCCL use the interface for the processes that meet at an address, unless the user has named another.

    Raises:
        LocalError: none can be chosen.
    """
    unset = [name for name in _VARIABLES if not os.environ.get(name, "").strip()]
    if not unset or sys.platform != "linux":
        return
    interface = _LOOPBACK if on_one_machine(address) else interface_towards(address)
    os.environ |= {name: _VARIABLES[name].format(interface) for name in unset}
    os.environ[LAUNCHER_SET] = ",".join(filter(None, (os.environ.get(LAUNCHER_SET), *unset)))


def chosen_interface(backend: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the interface that a backend uses; an empty text if that is up to it."""
    return environ.get(f"{backend}_SOCKET_IFNAME".upper(), "").strip().removeprefix("=")


def interface_towards(address: str) -> str:
    """Return the interface by which this machine reaches an address, or that has it.

    If the address is a name for the loopback here, the other machines know this one by another address: that of its
    only other interface.

    Raises:
        LocalError: there is no way to the address, or several interfaces may be meant.
    """
    own, host = _own_address(address), socket.gethostname()
    by_name = {
        name: [held.address.partition("%")[0] for held in addresses if held.family in (socket.AF_INET, socket.AF_INET6)]
        for name, addresses in psutil.net_if_addrs().items()
        if psutil.net_if_stats()[name].isup
    }
    if not ip_address(own).is_loopback:
        return next(name for name, addresses in by_name.items() if own in addresses)
    others = [name for name, addresses in by_name.items() if name != _LOOPBACK and addresses]
    if len(others) > 1:
        raise LocalError(
            f"MASTER_ADDR={address} is {own} on {host}, where no other host can reach it",
            f"give it as an IP address, or set GLOO_SOCKET_IFNAME on {host} to one of {', '.join(others)}",
        )
    return others[0] if others else _LOOPBACK


def _own_address(address: str) -> str:
    """Return the address of this machine from which packets to another one start; nothing is sent."""
    try:
        family, _, _, _, place = socket.getaddrinfo(address, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0]).partition("%")[0]
    except OSError as error:
        raise LocalError(
            f"{socket.gethostname()} cannot reach MASTER_ADDR={address}: {error.strerror}",
            "give the address of a network that all hosts share",
        ) from None
