"""Processes on two hosts find each other, compute what one host computes, and report a host that does not fit."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from helpers.faults import TINY
from helpers.hosts import Cluster, cluster, places
from helpers.runner import Ended, Runner, read_metrics

EXACT = ("train", *TINY, "--epochs", "2", "--global-batch-size", "32", "--exact", "--timeout", "20")
OWN_NAMES_ARE_LOOPBACK = ("127.0.0.1 localhost host0\n10.0.0.2 host1\n", "127.0.0.1 localhost host1\n10.0.0.1 host0\n")
"""The /etc/hosts of each host, as Debian writes it: Gloo by itself would use the loopback."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("two"), OWN_NAMES_ARE_LOOPBACK) as hosts:
        yield hosts


def errors(ended: Ended) -> list[str]:
    return [line.removeprefix("error: ") for line in ended.err.splitlines() if line.startswith("error: ")]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the weights of a run on one host."""
    folder = tmp_path_factory.mktemp("one_host")
    ended = Runner(folder)(*EXACT, "--output", "out", processes=2)
    assert ended.code == 0, ended.err
    return (folder / "out" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("address", ["10.0.0.1", "host0"])
def test_two_hosts_train_the_bits_of_one(two: Cluster, weights: bytes, tmp_path: Path, address: str) -> None:
    ended = two.run([*EXACT, "--output", str(tmp_path / "out"), "--verbose"], places(address))
    assert [one.code for one in ended] == [0, 0], ended
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == weights
    assert "host 0 (host0): rank 0, cpu, eth0\n" in ended[0].out
    assert "host 1 (host1): rank 1, cpu, eth0\n" in ended[0].out
    (record,) = read_metrics(tmp_path / "out", "run")
    assert [(host["host"], host["ranks"], host["network"]) for host in record["hosts"]] == [
        ("host0", [0], "eth0"),
        ("host1", [1], "eth0"),
    ]
    for rank in range(2):
        log = (tmp_path / "out" / "log" / f"rank_{rank}.log").read_text(encoding="utf-8")
        assert "host 1 (host1): rank 1, cpu, eth0\n" in log


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (("", "--seed 7"), "rank 1 on host1 has --seed 7, but rank 0 on host0 has no --seed"),
        (
            ("--lr 0.5 --ema 100", "--lr 0.25"),
            "rank 1 on host1 has no --ema and --lr 0.25, but rank 0 on host0 has --ema 100 and --lr 0.5",
        ),
    ],
)
def test_host_with_other_options_is_named(two: Cluster, tmp_path: Path, more: tuple[str, str], found: str) -> None:
    environments = [place | {"MORE": own} for place, own in zip(places(), more, strict=True)]
    ended = two.run([*EXACT, "--output", str(tmp_path / "out")], environments)
    assert [(one.code, errors(one)) for one in ended] == [(2, [found])] * 2


def test_host_with_another_version_is_named(two: Cluster, tmp_path: Path) -> None:
    installed = tmp_path / "accel_train-9.9.dist-info" / "METADATA"
    installed.parent.mkdir()
    installed.write_text("Metadata-Version: 2.1\nName: accel_train\nVersion: 9.9\n", encoding="utf-8")
    first, second = places()
    ended = two.run([*EXACT, "--output", str(tmp_path / "out")], [first, second | {"PYTHONPATH": str(tmp_path)}])
    found = f"rank 1 on host1 has accel_train 9.9, but rank 0 on host0 has accel_train {version('accel_train')}"
    assert [(one.code, errors(one)) for one in ended] == [(2, [found])] * 2


def test_host_with_another_number_of_machines_is_named(two: Cluster, tmp_path: Path) -> None:
    numbers = [place | {"GROUP_WORLD_SIZE": number} for place, number in zip(places(), "23", strict=True)]
    ended = two.run([*EXACT, "--output", str(tmp_path / "out")], numbers)
    found = "rank 1 on host1 has num_machines 3, but rank 0 on host0 has num_machines 2"
    assert [(one.code, errors(one)) for one in ended] == [(2, [found])] * 2


def test_host_that_cannot_reach_the_first_names_the_address(two: Cluster, tmp_path: Path) -> None:
    _, second = places("host1")  # on host1 a name for the loopback
    (ended,) = two.run([*EXACT[:-1], "2", "--output", str(tmp_path / "out")], [second])
    place = "nothing listens at host1:29500 (127.0.0.1, which is host1 itself: see its /etc/hosts)"
    assert (ended.code, errors(ended)) == (2, [f"rank 0 did not join within 2 s: {place}"])


def test_missing_host_is_reported_with_those_that_came(two: Cluster, tmp_path: Path) -> None:
    words = [*EXACT[:-1], "3", "--output", str(tmp_path / "out")]
    ended = two.run(words, places(hosts=3))
    message = "rank 2 did not join within 3 s: all that came are on host0, host1"
    assert [(one.code, errors(one)) for one in ended] == [(2, [message])] * 2


def test_two_hosts_with_one_rank_name_each_other(two: Cluster, tmp_path: Path) -> None:
    ended = two.run([*EXACT, "--output", str(tmp_path / "out")], places(ranks=(0, 0)))
    assert [one.code for one in ended] == [2, 2], ended
    for one in ended:
        (message,) = errors(one)
        assert message.startswith("two processes are rank 0: process ")
        assert "on host0" in message
        assert "on host1" in message


@pytest.mark.slow
def test_stages_on_two_hosts_train_the_bits_of_one(two: Cluster, weights: bytes, tmp_path: Path) -> None:
    pipeline = ("--strategy", "pipeline", "--pipeline-stages", "2")
    ended = two.run([*EXACT, *pipeline, "--output", str(tmp_path / "out"), "--verbose"], places())
    assert [one.code for one in ended] == [0, 0], ended
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == weights
    assert "host 1 (host1): rank 1, cpu, eth0; rank 1 stage 1 of replica 0" in ended[0].out


@pytest.mark.slow
def test_replicas_of_shards_on_two_hosts_train_the_bits_of_one_host(two: Cluster, tmp_path: Path) -> None:
    words = ("train", *TINY, "--epochs", "2", "--global-batch-size", "32", "--strategy", "hsdp", "--shard-size", "2")
    one = Runner(tmp_path)(*words, "--output", "one", processes=4)
    assert one.code == 0, one.err
    ended = two.run([*words, "--output", str(tmp_path / "two"), "--verbose"], two_a_host())
    assert [rank.code for rank in ended] == [0] * 4, ended
    assert (tmp_path / "two" / "model.safetensors").read_bytes() == (
        tmp_path / "one" / "model.safetensors"
    ).read_bytes()
    assert "host 1 (host1): ranks 2–3, cpu, eth0" in ended[0].out


def two_a_host() -> list[dict[str, str]]:
    """Return what a launcher tells two processes on each of two hosts."""
    return [
        place | {"WORLD_SIZE": "4", "RANK": str(rank), "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2"}
        for rank, place in enumerate(place for place in places() for _ in range(2))
    ]


def test_slow_network_that_loses_packets_changes_nothing(tmp_path: Path, weights: bytes) -> None:
    with cluster(tmp_path, delay=0.02, loss=0.01) as two:
        ended = two.run([*EXACT, "--output", str(tmp_path / "out")], places())
    assert [one.code for one in ended] == [0, 0], ended
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == weights
