"""The map of ranks has a line per host."""

import pytest

from accel_train.events import HostRecord
from accel_train.loggers.host_map import host_lines


def host(ranks: range | tuple[int, ...], devices: list[str], stages: list[str] | None = None) -> HostRecord:
    return HostRecord("node1", tuple(ranks), tuple(devices), tuple(stages or [""] * len(ranks)), "")


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (host(range(8, 16), [f"cuda:{i}" for i in range(8)]), "ranks 8–15, cuda:0–7"),
        (host((3,), ["cuda:0"]), "rank 3, cuda:0"),
        (host(range(2), ["cpu", "cpu"]), "ranks 0–1, cpu"),
        (host((0, 2, 3, 6), [f"cuda:{i}" for i in (0, 1, 5, 7)]), "ranks 0, 2–3, 6, cuda:0–1, 5, 7"),
        (
            host(range(2), ["cpu", "cpu"], ["stage 0 of replica 0", "stage 1 of replica 0"]),
            "ranks 0–1, cpu; rank 0 stage 0 of replica 0; rank 1 stage 1 of replica 0",
        ),
    ],
)
def test_ranks_and_devices_are_spans(record: HostRecord, line: str) -> None:
    assert host_lines([record]) == [f"host 0 (node1): {line}"]


def test_hosts_are_numbered() -> None:
    hosts = [HostRecord(name, (rank,), ("cpu",), ("",), "eth0") for rank, name in enumerate("ab")]
    assert host_lines(hosts) == ["host 0 (a): rank 0, cpu, eth0", "host 1 (b): rank 1, cpu, eth0"]
