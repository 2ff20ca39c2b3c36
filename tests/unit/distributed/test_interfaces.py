"""The network interface is that towards MASTER_ADDR, unless the user has named one."""

import os
import socket
from types import SimpleNamespace

import psutil
import pytest

from accel_train.distributed import interfaces
from accel_train.distributed.environment import LAUNCHER_SET
from accel_train.distributed.interfaces import (
    check_named_interfaces,
    choose_interface,
    chosen_interface,
    interface_towards,
)
from accel_train.errors import LocalError, UserError


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", LAUNCHER_SET):
        monkeypatch.setenv(name, "")
    for name, value in {"RANK": 0, "WORLD_SIZE": 4, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))
    return monkeypatch


def machine(monkeypatch: pytest.MonkeyPatch, **interfaces: str) -> None:
    """Let this machine have these interfaces, each with one address."""
    held = {name: [SimpleNamespace(family=socket.AF_INET, address=address)] for name, address in interfaces.items()}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: held)
    monkeypatch.setattr(
        psutil, "net_if_stats", lambda: {name: SimpleNamespace(isup=name != "down") for name in interfaces}
    )
    monkeypatch.setattr(socket, "gethostname", lambda: "node1")


def test_several_machines_use_the_interface_towards_their_meeting_point(unset: pytest.MonkeyPatch) -> None:
    unset.setattr(interfaces, "interface_towards", {"node7": "eth1"}.__getitem__)
    choose_interface("node7")
    assert (os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"]) == ("eth1", "=eth1")
    assert os.environ[LAUNCHER_SET] == "GLOO_SOCKET_IFNAME,NCCL_SOCKET_IFNAME"  # not printed as the user's
    assert [chosen_interface(backend) for backend in ("gloo", "nccl", "mpi", None)] == ["eth1", "eth1", "", ""]


def test_named_interfaces_are_kept(unset: pytest.MonkeyPatch) -> None:
    unset.setenv("LOCAL_WORLD_SIZE", "4")
    unset.setenv("GLOO_SOCKET_IFNAME", "no_such_interface")
    with pytest.raises(UserError, match="no network interface no_such_interface"):
        check_named_interfaces("nccl")
    choose_interface("node7")
    assert os.environ["GLOO_SOCKET_IFNAME"] == "no_such_interface"
    assert os.environ["NCCL_SOCKET_IFNAME"] == "=lo"  # all on one machine
    assert os.environ[LAUNCHER_SET] == "NCCL_SOCKET_IFNAME"


@pytest.mark.parametrize(
    ("own", "held", "expected"),
    [
        ("10.0.0.1", {"lo": "127.0.0.1", "eth0": "192.168.0.1", "eth1": "10.0.0.1"}, "eth1"),
        ("127.0.1.1", {"lo": "127.0.0.1", "eth0": "10.0.0.1"}, "eth0"),  # as Debian's /etc/hosts says
        ("127.0.1.1", {"lo": "127.0.0.1", "eth0": "10.0.0.1", "down": "10.1.0.1"}, "eth0"),
        ("127.0.1.1", {"lo": "127.0.0.1"}, "lo"),
    ],
)
def test_interface_has_the_address_from_which_packets_start(
    monkeypatch: pytest.MonkeyPatch, own: str, held: dict[str, str], expected: str
) -> None:
    machine(monkeypatch, **held)
    monkeypatch.setattr(interfaces, "_own_address", {"node7": own}.__getitem__)
    assert interface_towards("node7") == expected


def test_name_for_the_loopback_is_refused_if_several_interfaces_may_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, lo="127.0.0.1", eth0="10.0.0.1", eth1="10.1.0.1")
    monkeypatch.setattr(interfaces, "_own_address", {"node1": "127.0.1.1"}.__getitem__)
    with pytest.raises(LocalError) as refused:
        interface_towards("node1")
    assert refused.value.message == "MASTER_ADDR=node1 is 127.0.1.1 on node1, where no other host can reach it"
    assert refused.value.hint == "give it as an IP address, or set GLOO_SOCKET_IFNAME on node1 to one of eth0, eth1"


def test_address_of_this_machine_is_found_without_sending() -> None:
    assert interface_towards("127.0.0.1") == interface_towards("localhost")


def test_address_without_a_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node1")
    with pytest.raises(LocalError) as refused:
        interface_towards("no.such.host.invalid")
    assert refused.value.message.startswith("node1 cannot reach MASTER_ADDR=no.such.host.invalid: ")
