"""Prints the results of `measure` as Markdown, and draws them for light and dark pages.

    python -m benchmarks.large_batch.figure results.csv
    python -m benchmarks.large_batch.figure results.csv --noise-scale 700 1100 --draw large_batch

`--draw` writes `large_batch_light.svg` and `large_batch_dark.svg`. A run whose loss became NaN is counted at chance.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from benchmarks.large_batch.measure import BASE_BATCH, results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANCE = 0.1
"""Accuracy with ten classes of equal size."""
TITLES = {
    "linear": "linear scaling, warmup",
    "no-warmup": "linear scaling, no warmup",
    "unscaled": "LR not scaled",
    "lars": "LARS",
    "lamb": "LAMB",
}
MARKS = {"linear": "o-", "no-warmup": "s--", "unscaled": "^:", "lars": "D", "lamb": "P"}
COLOURS = {
    "light": {"linear": "#0969da", "no-warmup": "#bc4c00", "unscaled": "#6e7781", "lars": "#1a7f37", "lamb": "#8250df"},
    "dark": {"linear": "#58a6ff", "no-warmup": "#f0883e", "unscaled": "#8b949e", "lars": "#3fb950", "lamb": "#bc8cff"},
}
TEXT = {"light": "#1f2328", "dark": "#e6edf3"}
ERRORS = (8, 10, 15, 20, 30, 50, 90)
"""Errors in percent that the axis shows."""

Cells = Mapping[str, Mapping[int, list[float]]]
"""Final accuracies of the seeds, by row and global batch."""


def main() -> None:
    """Print a table, and draw the figures if asked to."""
    args = arguments()
    cells = accuracies(args.results)
    print("\n".join(table(cells)))
    for theme in COLOURS if args.draw else ():
        draw(Path(f"{args.draw}_{theme}.svg"), theme, cells, args.noise_scale)


def accuracies(path: Path) -> Cells:
    """Return the final validation accuracies; chance for a run whose loss became NaN."""
    cells: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in results(path):
        if not run["options"]:
            cells[run["row"]][int(run["global_batch"])].append(float(run["accuracy"] or CHANCE))
    if "unscaled" in cells and BASE_BATCH in cells["linear"]:
        cells["unscaled"][BASE_BATCH] = cells["linear"][BASE_BATCH]
    return cells


def table(cells: Cells) -> list[str]:
    """Return the lines of a table: mean ± standard deviation over the seeds, in percent."""
    batches = sorted({batch for row in cells.values() for batch in row})
    lines = ["| | " + " | ".join(f"{batch:,}" for batch in batches) + " |", "|---|" + "---:|" * len(batches)]
    for row in (name for name in TITLES if name in cells):
        texts = [_cell(cells[row][batch]) if batch in cells[row] else "" for batch in batches]
        lines.append(f"| {' | '.join([TITLES[row], *texts])} |")
    return lines


def _cell(found: list[float]) -> str:
    spread = f" ± {100 * stdev(found):.1f}" if len(found) > 1 else ""
    return f"{100 * mean(found):.1f}{spread}"


def draw(path: Path, theme: str, cells: Cells, noise_scale: tuple[float, float] | None) -> None:
    """Draw validation error by global batch, both on logarithmic axes, on a transparent ground."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    text = TEXT[theme]
    colours = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), text)
    fixed = {"svg.hashsalt": "large_batch", "svg.fonttype": "none", "font.family": "sans-serif"}
    with mpl.rc_context(colours | fixed):
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.subplots()
        if noise_scale:
            axes.axvspan(*noise_scale, color=text, alpha=0.12, linewidth=0, label="gradient noise scale")
        for row in (name for name in TITLES if name in cells):
            _plot(axes, row, cells[row], COLOURS[theme][row])
        _label(axes, sorted({batch for row in cells.values() for batch in row}))
        axes.legend(frameon=False, loc="upper left")
        axes.grid(color=text, alpha=0.15)
        figure.savefig(path, transparent=True, metadata={"Date": None})


def _plot(axes: "Axes", row: str, cells: Mapping[int, list[float]], colour: str) -> None:
    batches = sorted(cells)
    errors = [100 * (1 - mean(cells[batch])) for batch in batches]
    spreads = [100 * stdev(cells[batch]) if len(cells[batch]) > 1 else 0.0 for batch in batches]
    axes.errorbar(batches, errors, yerr=spreads, fmt=MARKS[row], color=colour, capsize=3, label=TITLES[row])


def _label(axes: "Axes", batches: list[int]) -> None:
    axes.set(xscale="log", yscale="log", xlabel="global batch (images per update)", ylabel="validation error, %")
    axes.set_xticks(batches, [f"{batch:,}" for batch in batches])
    axes.set_yticks(ERRORS, [str(error) for error in ERRORS])
    axes.minorticks_off()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("results", type=Path)
    parser.add_argument("--draw", metavar="NAME", help="start of the names of the SVG files")
    parser.add_argument("--noise-scale", nargs=2, type=float, metavar=("LOW", "HIGH"), help="a band to draw")
    return parser.parse_args()


if __name__ == "__main__":
    main()
