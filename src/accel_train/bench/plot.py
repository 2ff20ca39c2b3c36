"""Draws what a benchmark has found as a PNG."""

import math
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

from accel_train.bench.results import Row
from accel_train.errors import UserError


def check_figure(path: Path) -> None:
    """Refuse a figure that could not be drawn in the end.

    Raises:
        UserError: matplotlib is not installed, or the file cannot be written.
    """
    if find_spec("matplotlib") is None:
        raise UserError(f"--png {path} needs matplotlib, which is not installed", "pip install 'accel_train[plot]'")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"--png {path} is no file in a folder that exists", "give a file in a folder that exists")


def draw(path: Path, title: str, rows: list[Row]) -> None:
    """Draw images/s over the batch size, a line for each device and precision; dashed: the bare loop."""
    from matplotlib.figure import Figure

    lines: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.found:
            lines[f"{row.setting.device}, {row.setting.arithmetic}"].append(row)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="images per batch and process", ylabel="images/s")
    axes.set_title(title, fontsize="medium")
    for name, found in lines.items():
        sizes = [row.setting.batch_size for row in found]
        (line,) = axes.plot(sizes, [row.found.images_per_second for row in found if row.found], "o-", label=name)
        if found[0].bare_images_per_second:
            floors = [row.bare_images_per_second or math.nan for row in found]
            axes.plot(sizes, floors, "x--", color=line.get_color(), label=f"{name}, bare loop")
    sizes = sorted({row.setting.batch_size for row in rows})
    axes.set_xticks(sizes, labels=list(map(str, sizes)))
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, format="png", dpi=150)
