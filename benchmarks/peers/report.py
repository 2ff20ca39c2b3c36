"""Formats turns as tables and plots."""

import json
import math
import operator
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.peers.rounds import Turn
from benchmarks.peers.work import Work

BARE, OURS = "bare", "ours"
_MOST_COLUMNS = 2
"""Maximum columns of panels in a figure."""


@dataclass(frozen=True)
class Row:
    """Results of one trainer in one setting: medians over the rounds, and the range of its speed."""

    trainer: str
    images_per_second: float
    slowest: float
    fastest: float
    to_bare: float | None
    """Median over the rounds of its speed divided by the bare loop's; likewise `to_fastest_peer`."""
    to_fastest_peer: float | None
    """The fastest peer is the one with the highest median."""
    images_per_cpu_second: float
    seconds_to_first_update: float
    peak_bytes: float
    accuracy: float | None


def rows(turns: dict[str, list[Turn]]) -> list[Row]:
    """Return a row for each trainer."""
    speeds = {trainer: [turn.images_per_second for turn in taken] for trainer, taken in turns.items()}
    peers = [trainer for trainer in turns if trainer not in (BARE, OURS)]
    fastest_peer = max(peers, key=lambda peer: statistics.median(speeds[peer]), default=None)
    return [
        Row(
            trainer=trainer,
            images_per_second=statistics.median(speeds[trainer]),
            slowest=min(speeds[trainer]),
            fastest=max(speeds[trainer]),
            to_bare=_ratio(speeds, trainer, BARE),
            to_fastest_peer=_ratio(speeds, trainer, fastest_peer),
            images_per_cpu_second=statistics.median(turn.images_per_cpu_second for turn in taken),
            seconds_to_first_update=statistics.median(turn.seconds_to_first_update for turn in taken),
            peak_bytes=statistics.median(turn.peak_bytes for turn in taken),
            accuracy=_median([turn.accuracy for turn in taken if turn.accuracy is not None]),
        )
        for trainer, taken in turns.items()
    ]


def _ratio(speeds: dict[str, list[float]], trainer: str, other: str | None) -> float | None:
    return statistics.median(map(operator.truediv, speeds[trainer], speeds[other])) if other in speeds else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def versions() -> dict[str, str]:
    """Return the versions of the packages compared that are installed."""
    found = {}
    for package in ("torch", "torchvision", "accelerate", "timm", "lightning"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def as_json(found: dict[str, list[Row]]) -> str:
    """Return the rows of each setting as JSON, numbers unrounded."""
    settings = {title: [asdict(row) for row in of_one] for title, of_one in found.items()}
    return json.dumps({"versions": versions(), "settings": settings}, indent=1) + "\n"


def table(titles: dict[str, str], found: list[Row]) -> str:
    """Return rows as Markdown; `titles` maps trainers to their names."""
    columns = [
        "trainer",
        "images/s (range)",
        "÷ bare",
        "÷ fastest peer",
        "images/CPU s",
        "first update, s",
        "memory, MB",
    ]
    has_accuracy = any(row.accuracy is not None for row in found)
    lines = [columns + ["accuracy"] * has_accuracy]
    lines.append(["---"] * len(lines[0]))
    for row in found:
        cells = [
            titles[row.trainer],
            f"{row.images_per_second:,.0f} ({row.slowest:,.0f}–{row.fastest:,.0f})",
            _two_digits(row.to_bare),
            _two_digits(row.to_fastest_peer),
            f"{row.images_per_cpu_second:,.0f}",
            f"{row.seconds_to_first_update:.1f}",
            f"{row.peak_bytes / 1e6:,.0f}",
        ]
        if has_accuracy:
            cells.append("–" if row.accuracy is None else f"{row.accuracy:.2%}")
        lines.append(cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _two_digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def setting(work: Work) -> str:
    """Return a short name of a setting."""
    processes = f"{work.processes} process" + "es" * (work.processes > 1)
    return f"{processes}, batch {work.batch_size}, {work.precision}"


def draw(path: Path, titles: dict[str, str], panels: dict[str, list[Row]]) -> None:
    """Plot images/s with their ranges, one panel per setting, in the format of the file's extension."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "peers"  # else equal figures differ
    from matplotlib import pyplot

    columns = min(len(panels), _MOST_COLUMNS)
    lines = math.ceil(len(panels) / columns)
    size = (4 * columns + 1, 3 * lines)
    figure, axes = pyplot.subplots(lines, columns, figsize=size, sharey=True, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, (title, found) in zip(axes.flat, panels.items(), strict=False):
        axis.barh(
            [titles[row.trainer] for row in found],
            [row.images_per_second for row in found],
            xerr=_whiskers(found),
            color=["tab:blue" if row.trainer == OURS else "silver" for row in found],
        )
        axis.set(title=title, xlabel="images/s")
    axes[0][0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _whiskers(found: list[Row]) -> list[list[Any]]:
    """Return how far the slowest and the fastest turns are from the medians."""
    return [
        [row.images_per_second - row.slowest for row in found],
        [row.fastest - row.images_per_second for row in found],
    ]
