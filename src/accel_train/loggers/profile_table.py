"""Formats a profile as a table that fits on one screen."""

from dataclasses import astuple

from accel_train.events import PhaseTimes, Profiled
from accel_train.loggers.text import printable, quantity

_NAMES = ("data wait", "forward", "backward", "optimizer", "comm.", "other")
_MAX_RANKS = 8
_WIDTH = 11


def profile_lines(event: Profiled) -> list[str]:
    """Return a table, 80 columns wide: a row per rank, milliseconds per update and their shares by phase."""
    slowest_first = sorted(range(len(event.ranks)), key=lambda rank: -event.ranks[rank].own)
    shown = sorted(slowest_first[:_MAX_RANKS])
    header = "rank" + "".join(name.rjust(_WIDTH) for name in _NAMES) + "total".rjust(9)
    return [
        f"profile of updates {event.first_update:,} to {event.last_update:,}: ms per update, share of the total",
        header,
        *(_row(rank, event.ranks[rank]) for rank in shown),
        *([f"the {len(shown)} slowest of {len(event.ranks)} ranks"] if len(shown) < len(event.ranks) else []),
        *_slowest(event),
        "comm.: waiting for other ranks; other: augmentation, metrics, saving",
        f"traces, for https://ui.perfetto.dev: {printable(event.traces)}",
    ]


def _row(rank: int, times: PhaseTimes) -> str:
    cells = [f"{_milliseconds(ms)}{100 * ms / times.total:3.0f} %".rjust(_WIDTH) for ms in astuple(times)]
    return f"{rank:>4}" + "".join(cells) + _milliseconds(times.total).rjust(9)


def _slowest(event: Profiled) -> list[str]:
    if len(event.ranks) == 1:
        return []
    slowest, fastest = event.ranks[event.slowest_rank], min(event.ranks, key=lambda times: times.own)
    excess = 100 * (slowest.own / fastest.own - 1)
    return [
        f"slowest: rank {event.slowest_rank}, {_milliseconds(slowest.own)} ms without comm., "
        f"{excess:.0f} % above the fastest of {quantity(len(event.ranks), 'rank')}"
    ]


def _milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
