"""The map of ranks: which host runs which ranks, on which devices."""

from collections.abc import Sequence
from itertools import groupby

from accel_train.events import HostRecord
from accel_train.loggers.rows import Row


def host_lines(hosts: Sequence[HostRecord]) -> list[str]:
    """Return a line per host, such as ``host 1 (node2): ranks 8–15, cuda:0–7, eth0``."""
    return [f"host {number} ({host.host}): {_ranks(host)}" for number, host in enumerate(hosts)]


def host_rows(hosts: Sequence[HostRecord]) -> list[Row]:
    """Return the rows of a banner."""
    return [("hosts" if i == 0 else "", line) for i, line in enumerate(host_lines(hosts))]


def _ranks(host: HostRecord) -> str:
    kinds = list(dict.fromkeys(device.partition(":")[0] for device in host.devices))
    indices = [int(device.partition(":")[2]) for device in host.devices if ":" in device]
    parts = [
        f"rank{'s' if len(host.ranks) > 1 else ''} {_spans(host.ranks)}",
        " and ".join(kinds) + (f":{_spans(indices)}" if indices else ""),
        host.network,
    ]
    stages = [f"rank {rank} {stage}" for rank, stage in zip(host.ranks, host.stages, strict=True) if stage]
    return "; ".join([", ".join(filter(None, parts)), *stages])


def _spans(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ``0–3, 8``."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
