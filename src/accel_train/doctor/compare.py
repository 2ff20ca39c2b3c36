"""Compares what the processes have reported: versions, options, devices, clocks, speeds, sums."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from accel_train.distributed.links import ALL, Link
from accel_train.doctor.finding import Finding
from accel_train.doctor.machine import Report
from accel_train.doctor.speed import Speed
from accel_train.loggers.text import duration

_SLOW = 0.6
"""Of the speed of the other processes: below, all of them wait for this one."""
_SLOW_LINK = 0.4
"""Of the median bandwidth of all pairs."""
_MOST_SKEW = 1.0
"""Seconds."""


def compare_reports(reports: Sequence[Report]) -> Iterator[Finding]:
    """Yield where processes were started otherwise than rank 0, or on other hardware."""
    for report in reports[1:]:
        first = reports[0]
        for check, own, of_first, fix in (
            ("versions", report.versions, first.versions, "install the same versions on all hosts"),
            ("options", report.options, first.options, "start all hosts with the same command and options"),
            ("device", _kind(report), _kind(first), "give all hosts the same --device"),
        ):
            if different := _difference(own, of_first):
                yield Finding(check, different, fix, ranks=(report.rank,))
        if _kind(report) == _kind(first) and (different := _difference(_model(report), _model(first))):
            slower = "expect the speed of the slowest, and other last digits; --exact needs hosts of one kind"
            yield Finding("hardware", different, slower, fails=False, ranks=(report.rank,))


def _kind(report: Report) -> dict[str, str]:
    return {"device": report.device.partition(":")[0] or "none"}


def _model(report: Report) -> dict[str, str]:
    return {"hardware": report.hardware}


def _difference(own: Mapping[str, str], first: Mapping[str, str]) -> str:
    """Return what a process has and rank 0 has not; an empty text if they are equal."""
    names = [name for name in {**first, **own} if first.get(name) != own.get(name)]
    has, of_first = (" and ".join(_shown(values, name) for name in names) for values in (own, first))
    return f"has {has}, but rank 0 has {of_first}" if names else ""


def _shown(values: Mapping[str, str], name: str) -> str:
    return f"{name} {values[name]}" if name in values else f"no {name}"


def compare_clocks(offsets: Sequence[tuple[float, float]]) -> Iterator[Finding]:
    """Yield the processes whose clock differs from that of rank 0, given how far it is ahead at least and at most."""
    for rank, (least, most) in enumerate(offsets):
        if least > _MOST_SKEW or most < -_MOST_SKEW:
            apart = f"{duration(least)} ahead of" if least > 0 else f"{duration(-most)} behind"
            yield Finding(
                "clock",
                f"its clock is at least {apart} that of rank 0: logs and times of files mislead",
                "synchronize the clocks (chrony, systemd-timesyncd)",
                fails=False,
                ranks=(rank,),
            )


def compare_speeds(speeds: Sequence[Speed]) -> Iterator[Finding]:
    """Yield the processes that are much slower than the others."""
    if not speeds:
        return
    usual = sorted(speed.gflops for speed in speeds)[len(speeds) // 2]
    for rank, speed in enumerate(speeds):
        if speed.gflops < _SLOW * usual:
            yield Finding(
                "slow rank",
                f"computes {speed.gflops:,.1f} GFLOP/s, the others {usual:,.1f}: all of them wait for it",
                "look for a limit of power, heat or its container, and for another CPU or GPU model; or leave it out",
                fails=False,
                ranks=(rank,),
            )


def compare_sums(by_rank: Sequence[Sequence[Link]]) -> Iterator[Finding]:
    """Yield the processes that got wrong sums from a backend."""
    for rank, links in enumerate(by_rank):
        for link in links:
            if link.wrong:
                yield Finding(
                    "all-reduce",
                    f"{link.wrong:,} elements of sums by {link.backend} are wrong",
                    "test memory, GPUs and network cards of these hosts, and leave them out until they are repaired",
                    ranks=(rank,),
                )


def compare_pairs(by_rank: Sequence[Sequence[Link]]) -> Iterator[Finding]:
    """Yield the pairs of hosts whose link is much slower than that of the others."""
    slowest: dict[str, dict[str, float]] = {}
    for link in (link for links in by_rank for link in links if link.between != ALL):
        of_backend = slowest.setdefault(link.backend, {})
        of_backend[link.between] = min(link.gb_per_second, of_backend.get(link.between, math.inf))
    for backend, pairs in slowest.items():
        usual = median(pairs.values())
        for between, bandwidth in pairs.items():
            if bandwidth < _SLOW_LINK * usual:
                yield Finding(
                    "slow link",
                    f"{between}: {bandwidth:.3g} GB/s by {backend}, usual are {usual:.3g}: all processes wait for it",
                    "look at cables, switch ports and interfaces (ethtool); or leave out the host of all slow pairs",
                    fails=False,
                )
