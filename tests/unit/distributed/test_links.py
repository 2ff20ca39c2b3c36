"""Pairs of hosts whose link is measured."""

from types import SimpleNamespace
from typing import Any

import pytest

from accel_train.distributed.links import _pairs
from accel_train.events import RankStart


def on_hosts(hosts: int, a_host: int) -> Any:
    ranks = [
        RankStart(device="cpu", host=f"node{host}", pid=1, threads=1, machine=host, network="eth0", stage="")
        for host in range(hosts)
        for _ in range(a_host)
    ]
    return SimpleNamespace(ranks=tuple(ranks))


@pytest.mark.parametrize(
    ("hosts", "pairs"),
    [
        (1, []),
        (2, [(0, 2)]),
        (3, [(0, 2), (0, 4), (2, 4)]),
        (9, [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14), (14, 16), (16, 0)]),
    ],
)
def test_first_processes_of_hosts_are_paired(hosts: int, pairs: list[tuple[int, int]]) -> None:
    assert _pairs(on_hosts(hosts, 2)) == pairs
