"""Plots the results of a benchmark as a PNG."""

import io
import math
from collections import defaultdict
from pathlib import Path

from accel_train.bench.results import Row
from accel_train.system.atomic_files import write_output


def plot(path: Path, title: str, rows: list[Row]) -> None:
    """Plot images/s against the batch size, one line per device and precision; the bare loop is dashed."""
    from matplotlib.figure import Figure

    lines: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.measurement:
            lines[f"{row.setting.device}, {row.setting.precision_label}"].append(row)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="images per batch and process", ylabel="images/s")
    axes.set_title(title, fontsize="medium")
    for name, of_line in lines.items():
        sizes = [row.setting.batch_size for row in of_line]
        speeds = [row.measurement.images_per_second for row in of_line if row.measurement]
        (line,) = axes.plot(sizes, speeds, "o-", label=name)
        if of_line[0].bare_images_per_second:
            bare = [row.bare_images_per_second or math.nan for row in of_line]
            axes.plot(sizes, bare, "x--", color=line.get_color(), label=f"{name}, bare loop")
    sizes = sorted({row.setting.batch_size for row in rows})
    axes.set_xticks(sizes, labels=list(map(str, sizes)))
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    write_output(path, content.getvalue(), "--png")
