"""Bars and intervals are drawn to scale, and no text is cut off or covers another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from itertools import combinations

import pytest

from paceline.workbench.bench.report.plots import (
    MAX_FONT_SIZE,
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


LETTER = 0.6 * MAX_FONT_SIZE
"""Width of a letter, on average over a text, in the widest fonts that browsers use by default."""
INTERVALS = [
    IntervalRow("Time per output token", 12.3, -10.8, 13.1, "b", "+12.3 (-10.8 to +13.1) %"),
    IntervalRow("A with itself", 0.0, None, None, "aa", "+0.0 %"),
]
BARS = [
    BarGroup("Time to first token", [Bar("p50", 0.0809, "0.0809 ms"), Bar("p99", 140, "140 ms")]),
    BarGroup("Whole request", [Bar("p50", 1.58, "1.58 s", 1.1, 2.0), Bar("p90", 2, "2 s", 1, 4)]),
]
ARMS = [
    Series("repeat 1", "a", [(0.0, 11_000.0), (600.0, 14_000.0)], is_line=True),
    Series("repeat 2", "b", [(0.5, 12_000.0)], is_line=True),
]


@pytest.mark.parametrize(
    "svg",
    [
        bar_groups(BARS, "t"),
        interval_plot(INTERVALS, 3.0, "difference of B from A in %", "t"),
        time_plot(ARMS, "time in minutes", "Time per output token in ms", "t", with_zero=False),
        time_plot(ARMS[:1], "time in s", "output tokens/s", "t", with_zero=True),
    ],
    ids=["bars", "intervals", "two arms", "one arm"],
)
def test_no_text_is_cut_off_or_covers_another_at_the_largest_size(svg: str) -> None:
    height = float(re.search(r'viewBox="0 0 \d+ (\d+)"', svg)[1])  # type: ignore[index]
    boxes = list(text_boxes(svg))
    assert len(boxes) > 4
    for left, top, right, bottom, text in boxes:
        assert left >= 0, text
        assert right <= WIDTH, text
        assert top >= -1, text
        assert bottom <= height, text
    for one, other in combinations(boxes, 2):
        is_apart = (
            one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        )
        assert is_apart, (one, other)


def text_boxes(svg: str) -> Iterator[tuple[float, float, float, float, str]]:
    """Left, top, right and bottom of each text, and the text."""
    for attributes, text in re.findall(r"<text([^>]*)>([^<]*)</text>", svg):
        values = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        width = LETTER * len(text)
        left = (
            float(values["x"])
            - {"start": 0, "middle": width / 2, "end": width}[values["text-anchor"]]
        )
        baseline = float(values["y"]) + float(values.get("dy", "0em")[:-2]) * MAX_FONT_SIZE
        yield left, baseline - 0.75 * MAX_FONT_SIZE, left + width, baseline + 4, text


def test_the_style_sheet_enlarges_text_to_at_most_the_largest_size() -> None:
    style = resources.files("paceline.foundation.results").joinpath("style.css").read_text("utf-8")
    sizes = [float(size) for size in re.findall(r"svg \{[^}]*font-size: ([\d.]+)px", style)]
    assert max(sizes) == MAX_FONT_SIZE


def test_a_line_joins_its_points() -> None:
    series = [Series("s", "a", [(0.0, 1.0), (1.0, 2.0), (2.0, 0.5)], is_line=True)]
    svg = time_plot(series, "x", "y", "t", with_zero=True)
    found = re.search(r'class="line a" d="M([^"]+)"', svg)
    assert found is not None
    assert found[1].count("L") == 2


@pytest.mark.parametrize(
    "svg",
    [
        interval_plot(INTERVALS, 3.0, "difference of B from A in %", "t"),
        interval_plot(INTERVALS[:1], 20.0, "difference of B from A in %", "t"),
        time_plot(ARMS, "time in minutes", "Time per output token in ms", "t", with_zero=False),
        time_plot(ARMS[:1], "time in s", "output tokens/s", "t", with_zero=True),
    ],
    ids=["intervals", "one interval in the band", "two arms", "one arm"],
)
def test_no_text_is_on_the_grid_or_the_band_at_the_largest_size(svg: str) -> None:
    """A line through letters makes both hard to read."""
    lines = re.findall(
        r'class="(?:grid|zero)" x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"', svg
    )
    bands = re.findall(
        r'class="band" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg
    )
    drawn = [tuple(map(float, line)) for line in lines]
    for x, y, width, height in (map(float, band) for band in bands):
        drawn.append((x, y, x + width, y + height))
    assert drawn
    for left, top, right, bottom, text in text_boxes(svg):
        for x1, y1, x2, y2 in drawn:
            assert x2 < left or x1 > right or y2 < top or y1 > bottom, text
