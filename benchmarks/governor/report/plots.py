"""Plots of a run as SVG text: rates by phase, decisions of an arm, tokens lost to the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.drawing import GRID, colour, draw_legend, new_figure, render_svg
from benchmarks.governor.report.analysis import Findings
from benchmarks.governor.report.measured import Measured
from benchmarks.governor.report.series import accepted_stretches, regret

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHADE = "#f4f4f4"
_NUM_COLUMNS = 4


def plot_throughput(measured: Measured, findings: Findings) -> str:
    """A panel per phase with its own scale: a bar per arm, its range, the oracle as a line."""
    num_rows = -(-len(measured.phases) // _NUM_COLUMNS)
    figure = new_figure(12.0, 2.2 * num_rows + 0.4)
    panels = figure.subplots(num_rows, _NUM_COLUMNS, squeeze=False).flatten()
    for panel in panels[len(measured.phases) :]:
        panel.remove()
    for number, phase in enumerate(measured.phases):
        panel, best = panels[number], findings.oracle_arms[number]
        for index, arm in enumerate(measured.arms):
            rates = measured.rates(arm)[:, number]
            panel.bar(index, np.median(rates), color=colour(index), alpha=0.85, label=arm)
            panel.vlines(index, rates.min(), rates.max(), color="#333333", linewidth=1.5)
        oracle = float(np.median(measured.rates(best)[:, number]))
        panel.axhline(oracle, color="#000000", linestyle="--", linewidth=1.0)
        panel.set_title(f"{phase}, tokens/s (best {best})")
        panel.set_xticks([])
    draw_legend(figure, panels[0])
    return render_svg(figure)


def plot_decisions(measured: Measured, arm: str) -> str:
    """Draft length and accepted fraction over the trace, a thin line per repeat."""
    figure = new_figure(12.0, 4.6)
    lengths, accepted = figure.subplots(2, 1, sharex=True)
    for panel, title in (
        (lengths, f"{arm}: draft length in tokens, by repeat"),
        (accepted, "accepted fraction of the tokens drafted since the previous sample, by repeat"),
    ):
        _draw_phases(panel, measured)
        panel.set_title(title, pad=14)
    for index, run in enumerate(run for run in measured.governor[arm] if len(run["t_s"]) > 1):
        lengths.plot(run["t_s"], run["draft_length"], color=colour(index))
        for stretch in accepted_stretches(run):
            accepted.plot(*zip(*stretch, strict=True), color=colour(index))
    lengths.set_ylim(bottom=0.0)
    accepted.set_ylim(0.0, 1.05)
    accepted.set_xlabel("time, s")
    return render_svg(figure)


def plot_regret(measured: Measured, findings: Findings, arms: Sequence[str]) -> str:
    """Tokens fewer than the oracle so far, mean over repeats; a falling line catches up with it."""
    figure = new_figure(12.0, 4.2)
    panel = figure.subplots()
    end_s = float(measured.seconds.sum())
    _draw_phases(panel, measured)
    for index, arm in enumerate(arms):
        tokens = regret(measured, findings, arm)
        times_s = np.linspace(0.0, end_s, len(tokens))
        panel.plot(times_s, tokens, color=colour(index), linewidth=2.0, label=arm)
    panel.set_title(
        "tokens fewer than the oracle (best fixed length of each phase), mean of repeats", pad=14
    )
    panel.set_xlabel("time, s")
    draw_legend(figure, panel)
    return render_svg(figure)


def _draw_phases(panel: Axes, measured: Measured) -> None:
    """Shade every second phase and name each of them above the panel."""
    start_s = 0.0
    for number, (phase, seconds) in enumerate(zip(measured.phases, measured.seconds, strict=True)):
        end_s = start_s + float(seconds)
        if number % 2 == 0:
            panel.axvspan(start_s, end_s, color=_SHADE, zorder=0)
        panel.text(
            (start_s + end_s) / 2,
            1.01,
            phase,
            transform=panel.get_xaxis_transform(),
            horizontalalignment="center",
            fontsize=7,
        )
        start_s = end_s
    panel.set_xlim(0.0, start_s)
    panel.set_xticks([0.0, *np.cumsum(measured.seconds).tolist()])
    panel.grid(axis="y", color=GRID, linewidth=0.5)
