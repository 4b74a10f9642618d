"""Bars and intervals are drawn to scale, and labels stay inside the plot."""

from __future__ import annotations

import re

from paceline.bench.report.plots import (
    WIDTH,
    Bar,
    BarGroup,
    IntervalRow,
    Series,
    bar_groups,
    interval_plot,
    time_plot,
)


def test_bars_of_a_group_are_to_scale() -> None:
    svg = bar_groups([BarGroup("g", [Bar("p50", 5, "5 ms"), Bar("p99", 20, "20 ms")])], "t")
    short, long = (float(w) for w in re.findall(r'class="bar"[^>]*width="([\d.]+)"', svg))
    assert long == 4 * short
    assert long < WIDTH


def test_the_interval_row_and_the_margin_share_a_scale() -> None:
    """An interval as wide as the margin's band is drawn as wide."""
    svg = interval_plot([IntervalRow("r", 0.0, -3.0, 3.0, "b", "l")], 3.0, "%", "t")
    band = re.search(r'class="band" x="([\d.]+)"[^>]*width="([\d.]+)"', svg)
    whisker = re.search(r'class="whisker b" d="M([\d.]+) [\d.]+H([\d.]+)', svg)
    assert band is not None
    assert whisker is not None
    left, width = float(band[1]), float(band[2])
    assert float(whisker[1]) == left
    assert abs(float(whisker[2]) - (left + width)) < 0.11


def test_points_stay_inside_the_plot() -> None:
    series = [Series("A", "a", [(0.0, 5.0), (9.9, 120.0)]), Series("B", "b", [(5.0, 60.0)])]
    svg = time_plot(series, "x", "y", "t", with_zero=True)
    height = float(re.search(r'viewBox="0 0 \d+ (\d+)"', svg)[1])  # type: ignore[index]
    dots = re.findall(r'class="[ab] dot" cx="([\d.]+)" cy="([\d.]+)"', svg)
    assert len(dots) == 3
    for x, y in dots:
        assert 0 < float(x) < WIDTH
        assert 0 < float(y) < height


def test_labels_of_rows_have_room() -> None:
    """At 13 pixels a letter is about 7 wide; the longest label ends before the plot begins."""
    names = ("Time per output token", "A with itself")
    svg = interval_plot([IntervalRow(n, 0.0, None, None, "b", "l") for n in names], 3.0, "%", "t")
    ends = re.findall(r'x="([\d.]+)" y="[\d.]+" text-anchor="end">([^<]+)<', svg)
    assert [name for _, name in ends] == list(names)
    assert all(7 * len(name) < float(x) for x, name in ends)


def test_a_line_joins_its_points() -> None:
    series = [Series("s", "a", [(0.0, 1.0), (1.0, 2.0), (2.0, 0.5)], is_line=True)]
    svg = time_plot(series, "x", "y", "t", with_zero=True)
    found = re.search(r'class="line a" d="M([^"]+)"', svg)
    assert found is not None
    assert found[1].count("L") == 2
