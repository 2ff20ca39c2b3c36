"""Formats the results of a benchmark as a table, 80 columns wide."""

from rich.table import Table

from accel_train.bench.results import Row
from accel_train.loggers.text import speed

_COLUMNS = ("device", "batch", "precision", "images/s", "GiB", "start", "data", "comp.", "comm.", "other")


def benchmark_table(title: str, rows: list[Row]) -> Table:
    """Return a table of the rows, with a column of ratios if any row has a ratio to the bare loop."""
    against_bare = any(row.ratio_to_bare for row in rows)
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("device", "precision") else "right", no_wrap=True)
        if name == "images/s" and against_bare:
            table.add_column("÷ bare", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, against_bare))
    return table


def _cells(row: Row, against_bare: bool) -> list[str]:
    setting, measurement = row.setting, row.measurement
    first = [setting.device, str(setting.batch_size), setting.precision_label]
    if measurement is None:
        return [*first, row.failure or ""]
    return [
        *first,
        speed(measurement.images_per_second),
        *([f"{row.ratio_to_bare:.2f}" if row.ratio_to_bare else ""] if against_bare else []),
        f"{measurement.peak_memory_bytes / 2**30:.2f}",
        f"{measurement.seconds_to_first_update:.1f} s",
        f"{100 * measurement.data_share:.0f} %",
        f"{100 * measurement.compute_share:.0f} %",
        f"{100 * measurement.communication_share:.0f} %",
        f"{100 * measurement.other_share:.0f} %",
    ]
