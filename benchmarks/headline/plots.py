"""The plots of a raw result as SVG text: the figures of every server, and the published ratios."""

from __future__ import annotations

import numpy as np

from benchmarks.drawing import GRID, colour, draw_legend, new_figure, render_svg
from benchmarks.headline.measured import Measured
from benchmarks.headline.published import PUBLISHED, published_columns
from benchmarks.headline.tables import SERVER_COLUMNS, TIMES

_INK = "#333333"
_NUM_COLUMNS = 3
_TICKS = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]


def plot_servers(measured: Measured) -> str:
    """A panel per figure with its own scale: a bar per arm, and its range."""
    columns = [column for column in SERVER_COLUMNS if column[2] in measured.cells]
    num_rows = max(1, -(-len(columns) // _NUM_COLUMNS))
    figure = new_figure(11.0, 2.4 * num_rows + 0.5)
    panels = figure.subplots(num_rows, _NUM_COLUMNS, squeeze=False).flatten()
    for panel in panels[len(columns) :]:
        panel.remove()
    for panel, (title, quantity, cell, _) in zip(panels, columns, strict=False):
        for index, arm in enumerate(measured.arms):
            values = measured.of(quantity, arm, cell)
            panel.bar(index, values.mean(), color=colour(index), alpha=0.85, label=arm)
            panel.vlines(index, values.min(), values.max(), color=_INK, linewidth=1.5)
        better = "more is better" if quantity.more_is_better else "less is better"
        panel.set_title(f"{title}\n({better})")
        panel.set_xticks([])
        panel.set_ylim(bottom=0.0)
        panel.grid(axis="y", color=GRID, linewidth=0.5)
        panel.set_axisbelow(True)
    if columns:
        draw_legend(figure, panels[0])
    return render_svg(figure)


def plot_published(measured: Measured) -> str:
    """A line per published ratio: the ratio as a mark, and the mean and range of each column."""
    rows = [row for row in PUBLISHED if not row.is_fraction]
    figure = new_figure(11.0, 0.42 * len(rows) + 1.0)
    panel = figure.subplots()
    places = np.arange(len(rows))[::-1]
    targets = [row.target for row in rows]
    panel.scatter(targets, places, marker="|", s=260, color=_INK, label="published, at least")
    shown = published_columns(measured)
    for number, column in enumerate(shown):
        shift = 0.0 if len(shown) == 1 else 0.18 - 0.36 * number / (len(shown) - 1)
        means: list[float] = []
        heights: list[float] = []
        for place, row in zip(places, rows, strict=True):
            values = row.measure(column)
            if values is not None:
                means.append(float(values.mean()))
                heights.append(place + shift)
                ends = (float(values.min()), float(values.max()))
                panel.hlines(heights[-1], *ends, color=colour(number), linewidth=1.8, zorder=2)
        name = f"{column.arm}, mean and range"
        panel.scatter(means, heights, s=22, color=colour(number), label=name, zorder=3)
    panel.axvline(1.0, color=_INK, linewidth=0.8)
    panel.set_xscale("log")
    panel.set_xticks(_TICKS, labels=[f"{tick:g}{TIMES}" for tick in _TICKS])
    panel.minorticks_off()
    panel.set_yticks(places, labels=[row.what for row in rows])
    panel.grid(axis="x", color=GRID, linewidth=0.5)
    panel.set_axisbelow(True)
    panel.set_title("times better than the baseline (logarithmic)")
    draw_legend(figure, panel)
    return render_svg(figure)
