"""A fixed cost and one in proportion, told apart."""

from __future__ import annotations

import numpy as np
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


def test_the_line_is_that_of_weighted_least_squares() -> None:
    """Against NumPy, each point weighing 0.8 of the next one."""
    points = [(10.0, 3.0), (50.0, 6.0), (20.0, 2.5), (80.0, 9.0), (30.0, 5.0)]
    sizes, costs = np.array(points).T
    # polyfit squares its weights.
    slope, fixed = np.polyfit(sizes, costs, 1, w=np.sqrt(0.8 ** np.arange(4, -1, -1)))
    line = line_through(*points, keep=0.8)
    assert line.slope == pytest.approx(slope)
    assert line.at(0.0) == pytest.approx(fixed)


def test_of_equal_sizes_the_cost_is_the_fading_mean() -> None:
    """Costs 1 and 4 at a weight of 1 to 2 have the mean 3."""
    line = line_through((10.0, 1.0), (10.0, 4.0), keep=0.5)
    assert line.at(10.0) == pytest.approx(3.0)


def test_sizes_must_differ_by_a_tenth_to_tell_the_parts_apart() -> None:
    """100 and 115 count as alike, 100 and 120 do not: squared deviations of 1 % of the mean's."""
    fixed = 5.0
    alike, different = (
        line_through((100.0, fixed + 1.0), (size, fixed + size / 100.0), keep=1.0)
        for size in (115.0, 120.0)
    )
    assert alike.at(0.0) == pytest.approx(0.0, abs=1e-9)
    assert different.at(0.0) == pytest.approx(fixed)
