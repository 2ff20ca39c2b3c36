"""Where each process of a run is: its device, its host, its part of the model."""

import os
import socket
from collections.abc import Sequence

import torch
from torch.distributed import ProcessGroup

from accel_train.distributed import process_group
from accel_train.distributed.environment import machine
from accel_train.distributed.interfaces import chosen_interface
from accel_train.events import HostRecord, RankStart


def exchange_ranks(
    group: ProcessGroup | None, device: torch.device, backend: str | None, stage: str
) -> tuple[RankStart, ...]:
    """Collective: return where all processes are, by rank; given are values of this one."""
    own = RankStart(
        device=device_name(device),
        host=socket.gethostname(),
        pid=os.getpid(),
        threads=torch.get_num_threads(),
        machine=machine(),
        network=chosen_interface(backend),
        stage=stage,
    )
    return process_group.exchange_records(group, own)


def device_name(device: torch.device) -> str:
    """Return the name of a device, with its index if there can be several."""
    return device.type if device.type == "cpu" else str(device)


def hosts_of(ranks: Sequence[RankStart]) -> tuple[HostRecord, ...]:
    """Return the hosts in the order of their first ranks; two may have the same name."""
    by_host: dict[tuple[int, str], list[int]] = {}
    for rank, one in enumerate(ranks):
        by_host.setdefault((one.machine, one.host), []).append(rank)
    return tuple(
        HostRecord(
            host=host,
            ranks=tuple(own),
            devices=tuple(ranks[rank].device for rank in own),
            stages=tuple(ranks[rank].stage for rank in own),
            network=ranks[own[0]].network,
        )
        for (_, host), own in by_host.items()
    )


def rank_name(ranks: Sequence[RankStart], rank: int) -> str:
    """Return what messages call a process: with its host if there are several."""
    return f"rank {rank} on {ranks[rank].host}" if len(hosts_of(ranks)) > 1 else f"rank {rank}"
