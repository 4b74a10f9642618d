"""Bounds on the mean of bounded values."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.foundation.answer_quality.statistics.bounded_mean import bounded_mean


def test_without_values_everything_is_possible() -> None:
    found = bounded_mean(np.array([]), 0.05)
    assert (found.low, found.high) == (-1.0, 1.0)


def test_equal_outcomes_bound_the_mean_by_about_three_over_their_number() -> None:
    """The largest stake alone, with its tenth of the capital: (1 + 0.97 m / (1 - m))^n = 200."""
    found = bounded_mean(np.zeros(300), 0.05)
    assert found.value == 0.0
    assert found.high is not None
    assert found.low == pytest.approx(-found.high)
    assert 3 / 300 < found.high < (200 ** (1 / 300) - 1) / 0.97


def test_bounds_are_mirrored_with_the_values() -> None:
    values = np.array([1.0, 0.0, 0.0, 0.5, 0.0, -1.0, 0.0, 0.0] * 10)
    one, other = bounded_mean(values, 0.01), bounded_mean(-values, 0.01)
    assert (one.low, one.high) == pytest.approx((-(other.high or 0), -(other.low or 0)))


def test_a_smaller_error_gives_wider_bounds() -> None:
    values = np.array([0.0] * 900 + [1.0] * 100)
    wide, narrow = bounded_mean(values, 0.0025), bounded_mean(values, 0.05)
    assert wide.low is not None
    assert narrow.low is not None
    assert 0 < wide.low < narrow.low < 0.1


def test_each_bound_misses_the_mean_at_most_as_often_as_stated() -> None:
    """Rare losses, where normal intervals fail: 300 samples at 0.1 may have 30 misses."""
    draws = np.random.default_rng(3)
    found = [bounded_mean((draws.random(80) < 0.03).astype(float), 0.1) for _ in range(300)]
    assert sum(one.high is not None and one.high < 0.03 for one in found) < 30
    assert sum(one.low is not None and one.low > 0.03 for one in found) < 30
