"""95 % intervals over correlated values hold the truth in about 95 % of the cases.

The errors have a known correlation between adjacent values, and the slope is known. 600 draws have
a standard error of 0.9 percentage points.
"""

from __future__ import annotations

import numpy as np
import pytest

from paceline.operations.doctor.estimates.correlated_fit import (
    MAX_VALUES,
    Design,
    Floats,
    design_of,
)

_NUM_DRAWS = 600
_TRUE_SLOPE = 0.7

LOADS = {
    "changes once": lambda n: np.where(np.arange(n) < n // 2, 2.0, 8.0),
    "rises and falls": lambda n: np.resize([1.0, 2, 4, 8, 6, 3], n),
    "wanders": lambda n: 4 + errors(1, n, 0.8, seed=3)[0],
}


def errors(num_draws: int, num_values: int, correlation: float, seed: int) -> Floats:
    """(num_draws, num_values), each with variance 1."""
    fresh = np.random.default_rng(seed).standard_normal((num_draws, num_values))
    made = fresh.copy()
    for index in range(1, num_values):
        innovation = np.sqrt(1 - correlation**2) * fresh[:, index]
        made[:, index] = correlation * made[:, index - 1] + innovation
    return made


def prepared(loads: Floats) -> tuple[Design, Floats]:
    """The design of a line over these loads, and the true values."""
    matrix = np.stack([np.ones(len(loads)), loads], axis=1)
    design = design_of(matrix)
    assert design is not None
    return design, matrix @ np.array([20.0, _TRUE_SLOPE])


def coverage(loads: Floats, correlation: float) -> float:
    """In which fraction of the draws the interval of the slope holds it."""
    design, truth = prepared(loads)
    held = 0
    for error in errors(_NUM_DRAWS, len(loads), correlation, seed=1):
        fitted = design.fit(truth + error)
        held += abs(fitted.coefficients[1] - _TRUE_SLOPE) <= fitted.margins[1]
    return held / _NUM_DRAWS


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("name", LOADS)
def test_intervals_of_a_slope_hold_the_truth(name: str, correlation: float) -> None:
    """Over 15 seconds, the default of `paceline doctor`."""
    assert 0.92 <= coverage(LOADS[name](15), correlation) <= 0.998


def test_more_seconds_do_not_make_the_interval_too_narrow() -> None:
    """Intervals for independent errors hold the truth in half of these cases."""
    assert 0.92 <= coverage(LOADS["changes once"](60), 0.8) <= 0.998


def test_independent_errors_do_not_make_the_interval_useless() -> None:
    """It is at most half as wide again, on average, as one that knows that they are independent."""
    loads = LOADS["wanders"](60)
    design, truth = prepared(loads)
    known = 2.0 / np.sqrt(60 * np.var(loads))
    margins = [design.fit(truth + one).margins[1] for one in errors(100, 60, 0.0, seed=2)]
    assert known < np.mean(margins) < 1.5 * known


def test_exact_values_have_exact_coefficients() -> None:
    design, truth = prepared(np.arange(6.0))
    fitted = design.fit(truth)
    assert fitted.coefficients == pytest.approx([20, _TRUE_SLOPE])
    assert fitted.margins == pytest.approx([0, 0], abs=1e-9)


def test_values_that_do_not_determine_the_coefficients_are_refused() -> None:
    equal_loads = np.stack([np.ones(6), np.full(6, 4.0)], axis=1)
    assert design_of(equal_loads) is None
    assert design_of(np.ones((1, 1))) is None
    with pytest.raises(ValueError, match="at most 240"):
        design_of(np.ones((MAX_VALUES + 1, 1)))
