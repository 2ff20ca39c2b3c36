"""Draws figures as SVG for the middle of a page: they take the page's font and colours, in light and dark alike."""

import io
import logging
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#010101", "#020202", "#030303"
"""Placeholders for text, ticks and grid lines; matplotlib takes no variables of CSS."""
BLUE, ORANGE, SURFACE = "#010102", "#010103", "#010104"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    SURFACE: "var(--surface)",
}
_INCHES = (5.2, 3.0)
_POINTS = 10.5
"""Font size in a figure of 374 points: still readable if the figure is as wide as a phone."""
_MARGIN = 0.08
"""Share of the height above the highest value."""
_STYLE = {
    "svg.fonttype": "none",  # text remains text
    "svg.hashsalt": "accel_train",
    "font.size": _POINTS,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "figure.facecolor": "none",
    "path.simplify": True,
    "path.simplify_threshold": 0.5,
}


def new_figure(inches: tuple[float, float] = _INCHES) -> "tuple[Figure, Axes]":
    """Return an empty figure in the style of the page, and its axes."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # of its caches, which a home may have no place for
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=inches, layout="constrained")
        return figure, figure.add_subplot()


def start_at_zero(axes: "Axes") -> None:
    """Let the vertical axis go from 0 to above the highest value: also a curve that hardly falls is below the edge."""
    top = float(axes.dataLim.y1)
    axes.set_ylim(0, (1 + _MARGIN) * top if top > 0 else 1)


def as_svg(figure: "Figure", name: str, description: str) -> str:
    """Return a figure as an element of a page; `name` is part of its ids, which differ from those of other figures."""
    from matplotlib import rc_context

    content = io.StringIO()
    no_metadata: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context(_STYLE):
        figure.savefig(content, format="svg", metadata=no_metadata)
    return _embedded(content.getvalue(), name, description)


def _embedded(svg: str, name: str, description: str) -> str:
    """Make an SVG file a part of a page: without what a page has itself, rules for all its elements and unused ids."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<g[^>]*/>", "", svg)
    used = set(re.findall(r'(?:url\(|xlink:href=")#([\w.-]+)', svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda match: f' id="{name}-{match[1]}"' * (match[1] in used), svg)
    svg = re.sub(r'(url\(|xlink:href=")#([\w.-]+)', rf"\1#{name}-\2", svg)
    svg = re.sub(r"#0[0-9]{5}\b", lambda match: _VARIABLES.get(match[0], match[0]), svg)
    svg = re.sub(r" font-family: [^;]*;| transform=\"rotate\(-0 [^\"]*\"", "", svg)
    svg = re.sub(
        r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{description}">', svg
    )
    return re.sub(r"\s*\n\s*", "\n", svg).strip()
