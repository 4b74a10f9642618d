"""The fit against worked examples: cells, outliers, the prior, bounds and eviction."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.governor.estimates.cell_regression import CellRegression

A, B = (0, 0, 0, 0), (1, 0, 0, 0)


def step(duration_s: float, *features: float) -> np.ndarray:
    return np.array((*features, duration_s))


def fit(num_nonnegative: int = 2, *, prior: tuple[float, float] = (0.5, 0.5)) -> CellRegression:
    """Two features, with a prior that any sample outweighs."""
    found = CellRegression(2, num_nonnegative)
    found.set_prior(np.array(prior), np.array((1e-9, 1e-9)), 0.01)
    return found


def test_before_the_first_step_the_prior_is_the_answer() -> None:
    assert fit(prior=(0.9, 0.1)).solve() == pytest.approx([0.009, 0.001])


def test_two_shapes_determine_two_coefficients() -> None:
    """2 ms a step and 3 ms for each unit."""
    found = fit()
    found.add(A, step(0.005, 1.0, 1.0))
    found.add(B, step(0.014, 1.0, 4.0))
    assert found.solve() == pytest.approx([0.002, 0.003], rel=1e-3)


def test_the_error_is_relative() -> None:
    """One coefficient for 10 ms and 30 ms of one unit: least squares of relative errors."""
    found = CellRegression(1, 1)
    found.set_prior(np.array((1.0,)), np.array((1e-9,)), 0.01)
    found.add(A, step(0.010, 1.0))
    found.add(B, step(0.030, 1.0))
    # minimises (x / 10 - 1)² + (x / 30 - 1)²
    expected = (1 / 10 + 1 / 30) / (1 / 10**2 + 1 / 30**2)
    assert found.solve() == pytest.approx([expected * 1e-3], rel=1e-2)


def test_the_prior_weighs_as_told() -> None:
    """A weight of 1 in units of 10 ms, against one sample of 20 ms: relative error 1 to unit 1."""
    found = CellRegression(1, 1)
    found.set_prior(np.array((1.0,)), np.array((1.0,)), 0.01)
    found.add(A, step(0.020, 1.0))
    # minimises (x - 1)² + (x / 2 - 1)², in units of 10 ms
    assert found.solve() == pytest.approx([0.01 * (1.0 + 0.5) / (1.0 + 0.25)], rel=1e-3)


def test_steps_with_prompts_weigh_a_quarter() -> None:
    found = CellRegression(1, 1)
    found.set_prior(np.array((1.0,)), np.array((1e-9,)), 0.01)
    found.add(A, step(0.010, 1.0))
    found.add((0, 0, 0, 1), step(0.030, 1.0))
    expected = (1 / 10 + 0.25 / 30) / (1 / 10**2 + 0.25 / 30**2)
    assert found.solve() == pytest.approx([expected * 1e-3], rel=1e-2)


def test_coefficients_are_not_negative_unless_they_may_be() -> None:
    """A unit that makes steps shorter: held at 0, and released when the data turn."""
    for num_nonnegative, is_bounded in ((2, True), (1, False)):
        found = fit(num_nonnegative)
        for _ in range(8):
            found.add(A, step(0.010, 1.0, 1.0))
            found.add(B, step(0.004, 1.0, 4.0))
            base, unit = found.solve()
        assert (unit == 0.0) is is_bounded
        assert base > 0.0
        for _ in range(200):
            found.add(A, step(0.004, 1.0, 1.0))
            found.add(B, step(0.010, 1.0, 4.0))
            base, unit = found.solve()
        assert unit == pytest.approx(0.002, rel=0.05)


def test_a_cell_keeps_the_geometric_mean_of_its_last_24_steps() -> None:
    found = fit()
    found.add(A, step(0.010, 1.0, 0.0))
    for _ in range(3):
        found.add(A, step(0.012, 1.0, 0.0))
    mean = math.exp((math.log(0.010) + 3 * math.log(0.012)) / 4)
    assert found.mean_s(A) == pytest.approx(mean)
    for _ in range(100):
        found.add(A, step(0.012, 1.0, 0.0))
    found.add(A, step(0.015, 1.0, 0.0))
    assert found.mean_s(A) == pytest.approx(0.012 * (0.015 / 0.012) ** (1 / 24), rel=1e-3)


def test_a_duration_moves_a_mean_by_a_factor_of_two_at_most() -> None:
    found = fit()
    for _ in range(24):
        found.add(A, step(0.010, 1.0, 0.0))
    found.add(A, step(5.0, 1.0, 0.0))
    assert found.mean_s(A) == pytest.approx(0.010 * 2 ** (1 / 24))
    found = fit()
    for _ in range(24):
        found.add(A, step(0.010, 1.0, 0.0))
    found.add(A, step(1e-6, 1.0, 0.0))
    assert found.mean_s(A) == pytest.approx(0.010 * 0.5 ** (1 / 24))


@pytest.mark.parametrize(
    ("num_before", "duration_s", "expected_s"),
    [
        (1, 0.007, 0.007),  # a cold first step is forgotten
        (3, 0.007, 0.007),
        (4, 0.007, 0.010 * 0.7 ** (1 / 5)),  # a cell of four samples is not young
        (1, 0.009, 0.010 * 0.9 ** (1 / 2)),  # 10 % shorter is noise
        (1, 0.008, 0.010 * 0.8 ** (1 / 2)),  # and so is 20 %
    ],
)
def test_a_much_shorter_duration_replaces_the_mean_of_a_young_cell(
    num_before: int, duration_s: float, expected_s: float
) -> None:
    found = fit()
    for _ in range(num_before):
        found.add(A, step(0.010, 1.0, 0.0))
    found.add(A, step(duration_s, 1.0, 0.0))
    assert found.mean_s(A) == pytest.approx(expected_s)


def test_outliers_count_when_the_shape_repeats_them() -> None:
    """Three in a row change nothing, the fourth does; an expected one in between starts again."""
    found = fit()
    for _ in range(10):
        found.add(A, step(0.010, 1.0, 0.0))
    for _ in range(3):
        assert not found.add(A, step(0.015, 1.0, 0.0), is_outlier=True)
        assert found.mean_s(A) == pytest.approx(0.010)
    found.add(A, step(0.010, 1.0, 0.0))
    for _ in range(3):
        found.add(A, step(0.015, 1.0, 0.0), is_outlier=True)
    assert found.mean_s(A) == pytest.approx(0.010)
    found.add(A, step(0.015, 1.0, 0.0), is_outlier=True)
    assert found.mean_s(A) > 0.0101


def test_outliers_of_a_new_shape_do_not_count_at_once() -> None:
    """Three right after its first step."""
    found = fit()
    found.add(A, step(0.010, 1.0, 0.0))
    for _ in range(3):
        found.add(A, step(0.015, 1.0, 0.0), is_outlier=True)
    assert found.mean_s(A) == pytest.approx(0.010)
    found.add(A, step(0.015, 1.0, 0.0), is_outlier=True)
    assert found.mean_s(A) > 0.0101


def test_a_shape_counts_its_steps_up_to_24() -> None:
    found = fit()
    assert found.num_samples(A) == 0.0
    for number in range(1, 31):
        found.add(A, step(0.010, 1.0, 0.0))
        assert found.num_samples(A) == min(number, 24)
    assert found.num_samples(B) == 0.0


def test_a_shape_is_new_once() -> None:
    found = fit()
    assert found.add(A, step(0.010, 1.0, 0.0))
    assert not found.add(A, step(0.010, 1.0, 0.0))
    assert found.add(B, step(0.010, 1.0, 0.0))
    assert list(found.shapes) == [A, B]


def test_a_shape_is_known_from_eight_steps_on() -> None:
    """Its expectation is its mean, in proportion to the step's own features."""
    found = fit()
    for number in range(8):
        assert found.expected_s(A, step(0.0, 1.0, 1.0)) is None, number
        found.add(A, step(0.005, 1.0, 1.0))
        found.add(B, step(0.014, 1.0, 4.0))
        found.solve()
    assert found.expected_s(A, step(0.0, 1.0, 1.0)) == pytest.approx(0.005, rel=1e-3)
    assert found.expected_s(A, step(0.0, 1.0, 2.0)) == pytest.approx(0.008, rel=1e-2)


def test_the_shape_left_longest_ago_is_evicted_those_with_prompts_first() -> None:
    found = fit()
    shapes = [(number, 0, 0, 0) for number in range(192)]
    for shape in shapes:
        found.add(shape, step(0.010, 1.0, 0.0))
    found.add(shapes[0], step(0.010, 1.0, 0.0))
    found.add((999, 0, 0, 0), step(0.010, 1.0, 0.0))
    assert len(list(found.shapes)) == 192
    assert shapes[0] in found.shapes
    assert shapes[1] not in found.shapes
    found.add((5, 5, 5, 1), step(0.010, 1.0, 0.0))
    found.add((6, 6, 6, 1), step(0.010, 1.0, 0.0))
    assert (5, 5, 5, 1) not in found.shapes
    assert shapes[3] in found.shapes


def test_an_evicted_shape_leaves_the_fit() -> None:
    """192 shapes at 10 ms and one at 20 ms that is evicted: what remains says 10 ms."""
    found = CellRegression(1, 1)
    found.set_prior(np.array((1.0,)), np.array((1e-9,)), 0.01)
    found.add((999, 0, 0, 0), step(0.020, 1.0))
    for number in range(192):
        found.add((number, 0, 0, 0), step(0.010, 1.0))
    assert found.solve() == pytest.approx([0.010], rel=1e-6)


def test_a_shape_not_visited_for_2000_steps_keeps_a_third_of_its_weight() -> None:
    """Two shapes of one sample each at first; B fades, then both are weighed."""
    found = CellRegression(1, 1)
    found.set_prior(np.array((1.0,)), np.array((1e-9,)), 0.01)
    found.add(B, step(0.020, 1.0))
    for _ in range(2000):
        found.add(A, step(0.010, 1.0))
    weight_a, weight_b = 24.0, 0.9995**2000
    expected = (weight_a / 10 + weight_b / 20) / (weight_a / 10**2 + weight_b / 20**2)
    assert found.solve() == pytest.approx([expected * 1e-3], rel=1e-3)


def test_a_fit_that_expects_no_time_leaves_the_mean_as_it_is() -> None:
    """12 ms a step and -2 ms for each unit: less than nothing for ten units."""
    found = fit(1)
    for _ in range(8):
        found.add(A, step(0.010, 1.0, 1.0))
        found.add(B, step(0.004, 1.0, 4.0))
        assert found.solve() == pytest.approx([0.012, -0.002], rel=1e-3)
    assert found.expected_s(A, step(0.0, 1.0, 3.0)) == pytest.approx(0.006, rel=1e-3)
    assert found.expected_s(A, step(0.0, 1.0, 10.0)) == pytest.approx(0.010)


def seven_units_that_make_steps_shorter() -> CellRegression:
    """10 ms a step; each of seven units, in a shape of its own, takes 1.1 to 1.7 ms off. By the
    prior a step takes 10 ms and each unit 1 ms."""
    found = CellRegression(8, 8)
    found.set_prior(np.array((1.0, *[0.1] * 7)), np.array([1e-9] * 8), 0.010)
    for _ in range(24):
        found.add(A, step(0.010, 1.0, *[0.0] * 7))
    for unit in range(1, 8):
        features = [float(unit == other) for other in range(1, 8)]
        found.add((unit, 0, 0, 0), step(0.009 - 0.0001 * unit, 1.0, *features))
    return found


def test_a_solution_is_continued_from_step_to_step() -> None:
    """Three coefficients reach zero at a time, those that fall most steeply first. In between, no
    coefficient is further than the solution or the prior, and none is negative."""
    found = seven_units_that_make_steps_shorter()
    solutions = [found.solve() for _ in range(3)]
    zeros = [{index for index, value in enumerate(one) if value == 0.0} for one in solutions]
    assert zeros == [{7, 6, 5}, {7, 6, 5, 4, 3, 2}, {7, 6, 5, 4, 3, 2, 1}]
    for one in solutions:
        assert min(one) >= 0.0
        assert 0.0085 < one[0] <= 0.0101
        assert max(one[1:]) < 0.001
    # One coefficient for all steps: relative errors of 24 steps of 10 ms, and 8.9 to 8.3 ms.
    rates = [1.0 / 10] * 24 + [10.0 / duration for duration in range(83, 90)]
    expected_s = sum(rates) / sum(rate * rate for rate in rates) * 1e-3
    assert solutions[2][0] == pytest.approx(expected_s, rel=1e-3)
    assert found.solve() == pytest.approx(solutions[2])  # the data release none of them


def test_a_solution_in_progress_is_what_steps_are_expected_by() -> None:
    """A step of one unit against one without, by the coefficients of the last solution."""
    found = seven_units_that_make_steps_shorter()
    base, *units = found.solve()
    expected_s = found.expected_s(A, step(0.0, 1.0, 2.0, *[0.0] * 6))
    assert units[0] > 0.0
    assert expected_s == pytest.approx(0.010 * (base + 2.0 * units[0]) / base)


def test_every_fourth_solution_releases_a_coefficient() -> None:
    """The second shape turns out to take longer: the unit is zero up to the eighth solution."""
    found = fit()
    for _ in range(5):
        found.add(A, step(0.010, 1.0, 1.0))
        found.add(B, step(0.008, 1.0, 4.0))
        assert found.solve()[1] == 0.0
    for _ in range(100):
        found.add(B, step(0.016, 1.0, 4.0))
    units = [found.solve()[1] for _ in range(3)]
    assert units[:2] == [0.0, 0.0]
    assert units[2] == pytest.approx(0.002, rel=0.05)
