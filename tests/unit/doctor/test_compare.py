"""Processes that differ from rank 0, or from all others, are named."""

from dataclasses import replace
from typing import Any

import pytest

from accel_train.distributed.links import Link
from accel_train.doctor.compare import compare_clocks, compare_pairs, compare_reports, compare_speeds, compare_sums
from accel_train.doctor.machine import Report
from accel_train.doctor.speed import Speed

REPORT = Report(
    rank=0,
    host="host0",
    machine=0,
    pid=1,
    versions={"Python": "3.11.7", "torch": "2.14.1"},
    options={"--seed": "7"},
    device="cuda:0",
    hardware="NVIDIA H200",
    backend="nccl",
    network="eth0",
    cores=16,
    gpus=8,
    findings=(),
)


def test_nothing_is_found_where_nothing_was_reported() -> None:
    assert [*compare_reports([]), *compare_clocks([]), *compare_speeds([]), *compare_sums([]), *compare_pairs([])] == []


@pytest.mark.parametrize(
    ("other", "check", "fails", "message"),
    [
        ({"device": "cuda:1"}, None, False, ""),
        (
            {"versions": {"Python": "3.11.7", "torch": "2.13.0"}},
            "versions",
            True,
            "has torch 2.13.0, but rank 0 has torch 2.14.1",
        ),
        (
            {"options": {"--lr": "0.1"}},
            "options",
            True,
            "has no --seed and --lr 0.1, but rank 0 has --seed 7 and no --lr",
        ),
        ({"device": "cpu"}, "device", True, "has device cpu, but rank 0 has device cuda"),
        ({"device": ""}, "device", True, "has device none, but rank 0 has device cuda"),
        (
            {"hardware": "NVIDIA A100"},
            "hardware",
            False,
            "has hardware NVIDIA A100, but rank 0 has hardware NVIDIA H200",
        ),
    ],
)
def test_difference_from_rank_0_is_found(other: dict[str, Any], check: str | None, fails: bool, message: str) -> None:
    found = [
        (one.check, one.fails, one.ranks, one.message)
        for one in compare_reports([REPORT, replace(REPORT, rank=1), replace(REPORT, rank=2, **other)])
    ]
    assert found == ([(check, fails, (2,), message)] if check else [])


def test_clock_is_found_only_if_it_must_differ() -> None:
    offsets = [(0.0, 0.0), (-5.0, 5.0), (0.9, 1.2), (3.0, 4.0), (-90.0, -61.0)]
    assert [(one.ranks, one.message.partition(" that of")[0]) for one in compare_clocks(offsets)] == [
        ((3,), "its clock is at least 3.0 s ahead of"),
        ((4,), "its clock is at least 1 min 1 s behind"),
    ]


@pytest.mark.parametrize(
    ("gflops", "slow"),
    [([100.0], []), ([100, 61], []), ([100, 59], [1]), ([50, 100, 101, 99], [0]), ([10, 100, 100, 11], [0, 3])],
)
def test_slow_process_is_found(gflops: list[float], slow: list[int]) -> None:
    found = list(compare_speeds([Speed(speed, 0.0) for speed in gflops]))
    assert [one.ranks for one in found] == [(rank,) for rank in slow]
    assert not any(one.fails for one in found)


def test_wrong_sums_are_found() -> None:
    right, wrong = Link("gloo", "all", 0.001, 1.0, 0), Link("gloo", "all", 0.001, 1.0, 12)
    assert [(one.ranks, one.message) for one in compare_sums([[right], [wrong]])] == [
        ((1,), "12 elements of sums by gloo are wrong")
    ]


def test_slow_link_is_found_among_three() -> None:
    def measured(**pairs: float) -> list[Link]:
        return [Link("gloo", between, 0.001, bandwidth, 0) for between, bandwidth in pairs.items()]

    usual = [measured(all=0.1, ab=1.0, ac=0.9), measured(all=0.1, ab=1.1, bc=0.5), measured(all=0.1, ac=0.9, bc=0.5)]
    assert list(compare_pairs(usual)) == []
    slow = [measured(all=0.1, ab=1.0, ac=0.9), measured(all=0.1, ab=1.1, bc=0.9), measured(all=0.1, ac=0.9, bc=0.3)]
    (one,) = compare_pairs(slow)
    assert (one.check, one.fails) == ("slow link", False)
    assert one.message == "bc: 0.3 GB/s by gloo, usual are 0.9: all processes wait for it"
    assert list(compare_pairs([measured(all=1.0, ab=0.01), measured(all=1.0, ab=0.01)])) == []
