"""Plots as inline SVG, coloured by the page's CSS variables, so that they follow light and dark.

A plot is scaled to the width of the page. On narrow screens the style sheet enlarges the text in
turn, to at most `MAX_FONT_SIZE` units of the plot; every text has room at that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from paceline.foundation.results.text import number
from paceline.workbench.bench.report.axis import Axis, padded

WIDTH = 760
MAX_FONT_SIZE = 24
_LEFT = 60
"""Room for the names of bars."""
_RIGHT = 140
"""Room for the values beside the bars."""
_BAR_ROW = 30
_INTERVAL_ROW = 56
_STRIP = 20
"""Height of the grid and the band of a row; below its texts, which end 11 above its middle at
`MAX_FONT_SIZE`."""
_TICKS, _TITLE, _END = 26, 54, 64
"""Below a horizontal axis: baselines of its tick labels and its title, and the end of the plot."""
_CHAR = 14
"""Width of a character at `MAX_FONT_SIZE`, at most on average over a text."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a group, with its interval where known."""

    name: str
    value: float
    label: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class BarGroup:
    """Bars of one quantity on a scale of their own."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """An estimate with its interval, in percent."""

    name: str
    estimate: float
    low: float | None
    high: float | None
    css_class: str
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one arm, joined by a line or not."""

    name: str
    css_class: str
    points: Sequence[tuple[float, float]]
    is_line: bool = False


def bar_groups(groups: Sequence[BarGroup], title: str) -> str:
    """Horizontal bars; every group has its own scale, from zero to its largest value."""
    parts: list[str] = []
    y = 4.0
    for group in groups:
        parts.append(_text(0, y + 20, group.title, "strong"))
        y += _BAR_ROW
        ends = [bar.high if bar.high is not None else bar.value for bar in group.bars]
        axis = Axis(0, max([*ends, 1e-12]), _LEFT, WIDTH - _RIGHT)
        for bar in group.bars:
            length = max(1.0, axis.place(bar.value) - _LEFT)
            middle = y + _BAR_ROW / 2
            parts.append(_middle_text(_LEFT - 8, middle, bar.name, "end"))
            parts.append(
                f'<rect class="bar" x="{_LEFT}" y="{y + 7:.1f}" width="{length:.1f}" '
                f'height="{_BAR_ROW - 14}" rx="2"/>'
            )
            if bar.low is not None and bar.high is not None:
                parts.append(_whisker(axis.place(bar.low), axis.place(bar.high), middle, "ink"))
            right = max(_LEFT + length, axis.place(bar.high) if bar.high is not None else 0.0)
            parts.append(_middle_text(right + 8, middle, bar.label))
            y += _BAR_ROW
        y += 10
    return _svg(y, title, parts)


def interval_plot(rows: Sequence[IntervalRow], margin: float, axis_title: str, title: str) -> str:
    """Estimates with intervals around a line at zero; the band shows the margin. In percent.

    The name and the figures of a row are above its interval, where neither the grid nor the band
    is.
    """
    values = [-1.2 * margin, 1.2 * margin]
    for row in rows:
        values += [v for v in (row.estimate, row.low, row.high) if v is not None]
    low, high = padded(values, with_zero=True)
    axis = Axis(low, high, 44, WIDTH - 44)
    top, bottom = 8.0, 8.0 + _INTERVAL_ROW * len(rows)
    left_margin, right_margin = axis.place(-margin), axis.place(margin)
    parts = []
    for tick in axis.ticks():
        label = f"{tick:+g}" if tick else "0"
        parts.append(_text(axis.place(tick), bottom + _TICKS, label, "quiet", "middle"))
    for index, row in enumerate(rows):
        y = top + _INTERVAL_ROW * index + 42
        parts.append(_text(0, y - 16, row.name, "strong"))
        parts.append(_text(WIDTH, y - 16, row.label, "", "end"))
        above, below = y - _STRIP / 2, y + _STRIP / 2
        parts.append(
            f'<rect class="band" x="{left_margin}" y="{above}" '
            f'width="{right_margin - left_margin:.1f}" height="{_STRIP}"/>'
        )
        for tick in axis.ticks():
            x = axis.place(tick)
            css_class = "zero" if tick == 0 else "grid"
            parts.append(f'<line class="{css_class}" x1="{x}" y1="{above}" x2="{x}" y2="{below}"/>')
        if row.low is not None and row.high is not None:
            parts.append(_whisker(axis.place(row.low), axis.place(row.high), y, row.css_class))
        x = axis.place(row.estimate)
        parts.append(f'<circle class="{row.css_class}" cx="{x}" cy="{y}" r="5"/>')
    middle = (axis.start + axis.end) / 2
    parts.append(_text(middle, bottom + _TITLE, axis_title, "quiet", "middle"))
    return _svg(bottom + _END, title, parts)


def time_plot(
    series: Sequence[Series], x_title: str, y_title: str, title: str, *, with_zero: bool
) -> str:
    """Points or lines over time, one colour for each series; a legend above names several."""
    points = [point for one in series for point in one.points]
    has_legend = len(series) > 1
    top = 72.0 if has_legend else 40.0
    left, right, bottom = 98.0, WIDTH - 30.0, top + 232.0
    x_axis = Axis(0, max([x for x, _ in points] + [1e-9]), left + 6, right - 6)
    y_axis = Axis(*padded([y for _, y in points], with_zero=with_zero), bottom, top)
    parts = [_text(0, top - 20, y_title, "quiet")]
    for tick in y_axis.ticks():
        y = y_axis.place(tick)
        parts.append(f'<line class="grid" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>')
        parts.append(_middle_text(left - 8, y, number(tick), "end", "quiet"))
    parts += [
        _text(x_axis.place(tick), bottom + _TICKS, number(tick), "quiet", "middle")
        for tick in x_axis.ticks()
    ]
    parts.append(_text((left + right) / 2, bottom + _TITLE, x_title, "quiet", "middle"))
    legend_x = 6.0
    for one in series:
        if has_legend:
            parts.append(f'<circle class="{one.css_class}" cx="{legend_x}" cy="14" r="5"/>')
            parts.append(_middle_text(legend_x + 12, 14, one.name))
            legend_x += 40 + _CHAR * len(one.name)
        if one.is_line:
            path = "L".join(f"{x_axis.place(x)} {y_axis.place(y)}" for x, y in one.points)
            parts.append(f'<path class="line {one.css_class}" d="M{path}"/>')
            continue
        parts += [
            f'<circle class="{one.css_class} dot" cx="{x_axis.place(x)}" '
            f'cy="{y_axis.place(y)}" r="3.5"/>'
            for x, y in one.points
        ]
    return _svg(bottom + _END, title, parts)


def _whisker(x1: float, x2: float, y: float, css_class: str) -> str:
    return (
        f'<path class="whisker {css_class}" d="M{x1} {y}H{x2}M{x1} {y - 5}V{y + 5}'
        f'M{x2} {y - 5}V{y + 5}"/>'
    )


def _text(x: float, y: float, text: str, css_class: str = "", anchor: str = "start") -> str:
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _middle_text(x: float, y: float, text: str, anchor: str = "start", css_class: str = "") -> str:
    """A text whose letters are centred on `y` at any size."""
    attribute = f' class="{css_class}"' if css_class else ""
    return (
        f'<text{attribute} x="{x:.1f}" y="{y:.1f}" dy="0.35em" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
