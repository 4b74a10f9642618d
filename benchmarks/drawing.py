"""Draw the plots of reports as SVG text: one style, equal figures give equal files.

Paceline does not depend on matplotlib, so it is imported when a plot is drawn. `make install-dev`
installs it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#999999",
    "#994400",
    "#000000",
)
"""Paul Tol's bright scheme, which colour-blind readers can distinguish, with brown and black."""
GRID = "#dddddd"
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "paceline",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.0,
}
"""Text stays text, and equal figures give equal files."""


def new_figure(width_inches: float, height_inches: float) -> Figure:
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(_SETTINGS)
    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def draw_legend(figure: Figure, panel: Axes) -> None:
    """One legend below all panels, with the labels of `panel`."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)


def render_svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
