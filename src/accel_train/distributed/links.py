"""Measures all-reduce, by backend and between hosts, and checks its sums."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import torch
from torch.distributed import ProcessGroup

from accel_train.distributed import process_group
from accel_train.distributed.accelerator import Processes
from accel_train.distributed.ranks import hosts_of

_SMALL, _LARGE = 2**10, 2**22
"""Elements of fp32: 4 KiB, whose time is latency, and 16 MiB, whose time is bandwidth."""
_ROUNDS = 3
_PATTERN = 251
"""Values repeat after this many elements, a prime; sums are whole numbers that fp32 holds."""
ALL = "all"
_MOST_HOSTS = 8
"""Up to this number, all pairs are measured; beyond it, each with the next."""


@dataclass(frozen=True, slots=True)
class Link:
    """All-reduce over some processes with one backend, as one of them has measured it."""

    backend: str
    between: str
    """ALL, or the two hosts."""
    seconds: float
    """Of 4 KiB."""
    gb_per_second: float
    """Bus bandwidth: what each process sends and receives."""
    wrong: int
    """Elements of the sums that are wrong."""

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Return what another process has measured from its JSON."""
        return cls(**record)


def measure_links(processes: Processes, seconds: float) -> list[Link]:
    """Collective: measure all-reduce by backend over all processes, and over pairs of hosts."""
    if processes.count == 1:
        return []
    if processes.device.type == "cuda":
        torch.cuda.set_device(processes.device)  # each thread has its own
    backends = dict.fromkeys([torch.distributed.get_backend(), *(["gloo"] if processes.device.type == "cuda" else [])])
    links = []
    for backend in backends:
        group = None if backend == torch.distributed.get_backend() else processes.group
        links += [_measure(backend, ALL, group, processes)]
        for first, second in _pairs(processes):
            ranks = [first, second]
            pair = process_group.new_group(seconds, ranks, backend)
            if pair is not None and processes.rank in ranks:
                between = " – ".join(processes.ranks[rank].host for rank in ranks)
                links.append(_measure(backend, between, pair, processes))
            process_group.sum_over(processes.group, torch.zeros(1))  # one pair at a time
    return links


def _pairs(processes: Processes) -> list[tuple[int, int]]:
    """Return the first ranks of pairs of hosts."""
    first = [host.ranks[0] for host in hosts_of(processes.ranks)]
    if len(first) <= _MOST_HOSTS:
        return list(combinations(first, 2))
    return list(zip(first, [*first[1:], first[0]], strict=True))


def _measure(backend: str, between: str, group: ProcessGroup | None, processes: Processes) -> Link:
    """Collective over a group: check and time sums."""
    device = torch.device("cpu") if backend == "gloo" else processes.device
    count = torch.distributed.get_world_size(group)
    own = torch.distributed.get_rank(group)
    timed = {}
    wrong = 0
    for elements in (_SMALL, _LARGE):
        values = (torch.arange(elements, device=device) % _PATTERN).float()
        expected = count * values + count * (count - 1) / 2
        fastest = float("inf")
        for _ in range(_ROUNDS):
            summed = values + own
            _wait_for(device)
            began = time.perf_counter()
            process_group.sum_over(group, summed)
            _wait_for(device)
            fastest = min(fastest, time.perf_counter() - began)
            wrong += int((summed != expected).sum())
        timed[elements] = fastest
    sent = 2 * (count - 1) / count * 4 * _LARGE
    return Link(backend, between, timed[_SMALL], sent / timed[_LARGE] / 1e9, wrong)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
