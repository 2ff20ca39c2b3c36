"""Shows where the time of the updates that were profiled went, on one screen."""

from dataclasses import astuple

from accel_train.events import PhaseTimes, Profiled
from accel_train.loggers.text import printable, quantity

_NAMES = ("data wait", "forward", "backward", "optimizer", "comm.", "other")
_MOST_RANKS = 8
_WIDTH = 11


def profile_lines(event: Profiled) -> list[str]:
    """Return a table of ranks, milliseconds per update and their shares, 80 columns wide."""
    slowest_first = sorted(range(len(event.ranks)), key=lambda rank: -event.ranks[rank].own)
    shown = sorted(slowest_first[:_MOST_RANKS])
    header = "rank" + "".join(name.rjust(_WIDTH) for name in _NAMES) + "total".rjust(9)
    return [
        f"profile of the updates {event.first_update:,} to {event.last_update:,}: ms per update, share of it",
        header,
        *(_row(rank, event.ranks[rank]) for rank in shown),
        *([f"the {len(shown)} slowest of {len(event.ranks)} ranks"] if len(shown) < len(event.ranks) else []),
        *_verdict(event),
        "comm.: waited for others, computed nothing; other: augmentation, metrics, saving",
        f"traces, for https://ui.perfetto.dev: {printable(event.traces)}",
    ]


def _row(rank: int, times: PhaseTimes) -> str:
    cells = [f"{_milliseconds(ms)}{100 * ms / times.total:3.0f} %".rjust(_WIDTH) for ms in astuple(times)]
    return f"{rank:>4}" + "".join(cells) + _milliseconds(times.total).rjust(9)


def _verdict(event: Profiled) -> list[str]:
    if len(event.ranks) == 1:
        return []
    slowest, fastest = event.ranks[event.slowest_rank], min(event.ranks, key=lambda times: times.own)
    ahead = 100 * (slowest.own / fastest.own - 1)
    return [
        f"slowest: rank {event.slowest_rank}, {_milliseconds(slowest.own)} ms of its own, "
        f"{ahead:.0f} % more than the fastest of {quantity(len(event.ranks), 'rank')}"
    ]


def _milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
