"""Where the time of a run went, and what each process did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from accel_train.events import EpochEnd, PhaseTimes, RunEnded
from accel_train.history.metrics_file import Metrics
from accel_train.loggers.text import duration, loss, speed
from accel_train.report.started import Started
from accel_train.system.os_errors import format_bytes

_LEAST_SHARE = 0.001
"""Smaller parts of a bar are not shown."""


@dataclass(frozen=True)
class Part:
    """A part of a bar that makes up a whole."""

    label: str
    share: float
    text: str


@dataclass(frozen=True)
class Bar:
    """A whole and its parts, of one process or of the run."""

    label: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class RankRow:
    """What a process did in its last epoch."""

    rank: int
    device: str
    host: str
    images: str
    speed: str
    loss: str
    waiting: str
    memory: str


def time_of_run(epochs: list[EpochEnd], end: RunEnded | None, images_per_epoch: int) -> Bar | None:
    """Return where the time of a run went, as rank 0 measured it; None if nothing was trained."""
    training = sum(images_per_epoch / epoch.images_per_second for epoch in epochs if epoch.images_per_second > 0)
    validation = max(0.0, sum(epoch.seconds for epoch in epochs) - training)
    if training <= 0:
        return None
    waiting = training * end.data_wait_share if end else 0.0
    seconds = {"training": training - waiting, "waiting for batches": waiting, "validation": validation}
    if end:
        seconds |= {
            "saving": end.seconds * end.save_share,
            "checking that processes agree": end.seconds * end.watch_share,
        }
        seconds["other"] = max(0.0, end.seconds - sum(seconds.values()))
    return Bar("the run", _parts(seconds, duration))


def profiled(metrics: Metrics) -> list[Bar]:
    """Return where the time of an update went by rank, from the last profile."""
    if not metrics.profiles:
        return []
    names = {field.name: field.name.replace("_", " ") for field in fields(PhaseTimes)}
    return [
        Bar(f"rank {rank}", _parts({label: getattr(times, name) for name, label in names.items()}, "{:.1f} ms".format))
        for rank, times in enumerate(metrics.profiles[-1].ranks)
    ]


def rank_rows(metrics: Metrics, started: Started | None) -> list[RankRow]:
    """Return what each process did in the last epoch."""
    if not metrics.by_rank:
        return []
    hosts = {rank: host.host for host in started.hardware.hosts for rank in host.ranks} if started else {}
    return [
        RankRow(
            rank=rank,
            device=each.device,
            host=hosts.get(rank, ""),
            images=f"{each.images:,}",
            speed=speed(each.images_per_second),
            loss=loss(each.loss),
            waiting=f"{100 * each.data_wait_share:.1f} %",
            memory=format_bytes(each.memory_bytes) if each.memory_bytes else "–",
        )
        for rank, each in enumerate(metrics.by_rank[-1].ranks)
    ]


def _parts(amounts: Mapping[str, float], text: Callable[[float], str]) -> tuple[Part, ...]:
    total = sum(amounts.values()) or 1.0
    shares = [Part(label, amount / total, text(amount)) for label, amount in amounts.items()]
    return tuple(part for part in shares if part.share >= _LEAST_SHARE)
