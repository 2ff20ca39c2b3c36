"""Processes are told apart by host, and hosts by the number that the launcher gave them."""

import torch

from accel_train.distributed.ranks import device_name, exchange_ranks, hosts_of, rank_name
from accel_train.events import RankStart


def start(host: str, machine: int = 0, device: str = "cpu") -> RankStart:
    return RankStart(device, host, 1, 1, machine, "eth0")


def test_hosts_are_in_the_order_of_their_ranks() -> None:
    hosts = hosts_of([start("b"), start("a"), start("b"), start("a")])
    assert [(host.host, host.ranks) for host in hosts] == [("b", (0, 2)), ("a", (1, 3))]


def test_hosts_of_one_name_are_told_apart_by_their_number() -> None:
    hosts = hosts_of([start("node", 0, "cuda:0"), start("node", 0, "cuda:1"), start("node", 1, "cuda:0")])
    assert [host.devices for host in hosts] == [("cuda:0", "cuda:1"), ("cuda:0",)]
    assert hosts[0].network == "eth0"


def test_host_is_named_if_there_are_several() -> None:
    assert rank_name([start("a"), start("a")], 1) == "rank 1"
    assert rank_name([start("a"), start("b")], 1) == "rank 1 on b"


def test_process_alone_is_rank_0() -> None:
    (own,) = exchange_ranks(None, torch.device("cpu"), None, "")
    assert (own.device, own.machine, own.network, own.stage) == ("cpu", 0, "", "")
    assert device_name(torch.device("cuda", 1)) == "cuda:1"
