"""The exact sign test on the most extreme conversations."""

from __future__ import annotations

import numpy as np

from paceline.foundation.answer_quality.statistics.extreme import exceeds_in_extremes, num_extremes


def test_as_many_extremes_as_make_chance_unlikely() -> None:
    assert [num_extremes(error) for error in (0.5, 0.01, 0.0025)] == [1, 7, 9]


def test_nine_severe_conversations_among_many_are_found() -> None:
    reference = np.linspace(1.0, 2.0, 60)
    candidate = 0.9 * reference
    candidate[::7] = 50.0  # 9 of 60
    assert exceeds_in_extremes(candidate, reference, 0.0025)
    candidate[7] = 1.0
    assert not exceeds_in_extremes(candidate, reference, 0.0025)


def test_equal_values_and_few_conversations_are_no_finding() -> None:
    values = np.ones(60)
    assert not exceeds_in_extremes(values, values, 0.0025)
    assert not exceeds_in_extremes(9 * values[:8], values[:8], 0.0025)


def test_exchangeable_values_are_found_at_most_as_often_as_stated() -> None:
    """20,000 samples at 2^-4: 1,250 findings, and 5 standard deviations are 171."""
    draws = np.random.default_rng(2)
    pairs = draws.pareto(1.0, (20_000, 2, 12))
    found = sum(exceeds_in_extremes(one, other, 1 / 16) for one, other in pairs)
    assert 1079 < found < 1421
