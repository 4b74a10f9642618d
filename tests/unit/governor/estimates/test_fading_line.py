"""A fixed cost and one in proportion, told apart."""

from __future__ import annotations

import pytest

from paceline.governor.estimates.fading_line import FadingLine


def line_through(*points: tuple[float, float], keep: float = 0.95) -> FadingLine:
    line = FadingLine(keep)
    for size, cost in points:
        line.add(size, cost)
    return line


def test_before_the_first_point_everything_is_free() -> None:
    assert FadingLine(0.95).at(100.0) == 0.0


def test_sizes_that_are_all_alike_make_larger_ones_look_dear() -> None:
    """64 cost 2: ten times as many are taken to cost 20, whatever of it was fixed."""
    assert line_through((64.0, 2.0), (64.0, 2.0)).at(640.0) == pytest.approx(20.0)


def test_a_fixed_part_is_told_from_one_in_proportion() -> None:
    """1 and 0.01 for each: at 2,000 they are 21."""
    line = line_through((64.0, 1.64), (640.0, 7.4), (64.0, 1.64), (320.0, 4.2))
    assert line.slope == pytest.approx(0.01)
    assert line.at(2000.0) == pytest.approx(21.0)


def test_more_never_costs_less() -> None:
    """Noise that says otherwise: the cost is the mean one, at every size."""
    line = line_through((64.0, 3.0), (640.0, 1.0))
    assert line.slope == 0.0
    assert line.at(64.0) == line.at(640.0) > 0.0


def test_old_points_fade() -> None:
    """The cost doubles: after 60 points, hardly any weight is left on the old ones."""
    old = [(float(size), 0.01 * size) for size in (64, 640)] * 30
    new = [(float(size), 0.02 * size) for size in (64, 640)] * 30
    assert line_through(*old, *new).slope == pytest.approx(0.02, rel=0.06)
