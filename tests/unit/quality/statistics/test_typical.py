"""The centre of paired quantities and its bounds."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.foundation.answer_quality.statistics.typical import typical_difference, typical_ratio


def test_the_ratio_of_proportional_values_is_their_factor() -> None:
    below = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0, 3.0])
    found = typical_ratio(3 * below, below, error=0.05, floor=0.0)
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0))


def test_values_below_the_floor_are_equal() -> None:
    tiny = np.array([1e-12, 3e-12, 5e-11, 0.0, 2e-13])
    assert typical_ratio(tiny, 0 * tiny, error=0.05, floor=1e-7).value == pytest.approx(1, abs=1e-3)


def test_one_conversation_of_twelve_does_not_move_the_centre() -> None:
    below = np.ones(12)
    above = np.array([1e6, *[1.0] * 11])
    assert typical_ratio(above, below, error=0.05, floor=0.0).value == pytest.approx(1.0)


def test_too_few_conversations_have_no_bounds() -> None:
    found = typical_difference([1.0] * 8, error=0.0025)
    assert (found.value, found.low, found.high) == (1.0, None, None)
    assert typical_difference([1.0] * 9, error=0.0025).low == 1.0


def test_each_bound_misses_the_centre_at_most_as_often_as_stated() -> None:
    """1,000 samples of 12: 5 % are 50 misses, and 5 standard deviations more are 85."""
    draws = np.random.default_rng(1)
    found = [typical_difference(draws.standard_t(2, 12).tolist(), 0.05) for _ in range(1000)]
    for misses in (
        sum(one.low is not None and one.low > 0 for one in found),
        sum(one.high is not None and one.high < 0 for one in found),
    ):
        assert 20 < misses < 85
