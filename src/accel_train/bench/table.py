"""Shows what a benchmark has found as a table, 80 columns wide."""

from rich.table import Table

from accel_train.bench.results import Row
from accel_train.loggers.text import speed

_WITHOUT_RATIO = ("device", "batch", "precision", "images/s", "GiB", "start", "data", "comp.", "comm.", "other")


def benchmark_table(title: str, rows: list[Row]) -> Table:
    """Return the rows under a title; there is a column of ratios to the bare loop if one of them has one."""
    against_bare = any(row.ratio_to_bare for row in rows)
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in _WITHOUT_RATIO:
        table.add_column(name, justify="left" if name in ("device", "precision") else "right", no_wrap=True)
        if name == "images/s" and against_bare:
            table.add_column("÷ bare", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, against_bare))
    return table


def _cells(row: Row, against_bare: bool) -> list[str]:
    setting, found = row.setting, row.found
    first = [setting.device, str(setting.batch_size), setting.arithmetic]
    if found is None:
        return [*first, row.failure or ""]
    shares = (found.data_share, found.compute_share, found.communication_share, found.other_share)
    return [
        *first,
        speed(found.images_per_second),
        *([f"{row.ratio_to_bare:.2f}" if row.ratio_to_bare else ""] if against_bare else []),
        f"{found.peak_memory_bytes / 2**30:.2f}",
        f"{found.seconds_to_first_update:.1f} s",
        *(f"{100 * share:.0f} %" for share in shares),
    ]
