"""Estimate and interval from signed ranks: worked values, tables, and coverage of a known truth."""

from __future__ import annotations

import random

import pytest

from paceline.foundation.results.signed_rank import (
    hodges_lehmann,
    min_differences,
    signed_rank_interval,
)


def test_the_estimate_is_the_median_of_all_pairwise_averages() -> None:
    """Averages of 1, 2, 6: 1, 1.5, 3.5, 2, 4, 6; in order 1, 1.5, 2, 3.5, 4, 6."""
    assert hodges_lehmann([6.0, 1.0, 2.0]) == 2.75


def test_an_outlier_moves_the_estimate_little() -> None:
    assert hodges_lehmann([1.0, 1.1, 0.9, 1.05, 0.95, 50.0]) == pytest.approx(1.0375, abs=0.04)


def test_the_interval_of_eight_differences_matches_the_table() -> None:
    """For n = 8, P(W <= 3) = 5/256 and P(W <= 4) = 7/256: at 5 % the 4th Walsh averages."""
    differences = [float(d) for d in range(1, 9)]
    # Ascending Walsh averages of 1..8: 1, 1.5, 2, 2, ...; descending: 8, 7.5, 7, 7, ...
    assert signed_rank_interval(differences, error=0.05) == (2.0, 7.0)


def test_too_few_differences_have_no_interval() -> None:
    """Five differences allow 1 - 2/32 at best."""
    assert signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0], error=0.05) is None
    assert signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0], error=2 / 32) == (1.0, 5.0)


@pytest.mark.parametrize("error", [0.1, 0.05, 0.01, 0.0005])
def test_min_differences_is_where_intervals_begin(error: float) -> None:
    n = min_differences(error)
    differences = [float(d) for d in range(n)]
    assert signed_rank_interval(differences, error) is not None
    assert signed_rank_interval(differences[1:], error) is None


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1])
def test_an_error_outside_0_and_1_is_refused(error: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        signed_rank_interval([1.0], error)


def test_the_interval_covers_the_centre_of_heavy_tailed_noise() -> None:
    """800 samples of 12 with true centre 0.3: at 10 % error, 80 misses (standard deviation 8.5)."""
    rng = random.Random(5)
    num_missed = 0
    for _ in range(800):
        # The ratio of two normal values has Cauchy tails and is symmetric.
        sample = [0.3 + rng.gauss(0, 1) / rng.gauss(0, 1) for _ in range(12)]
        interval = signed_rank_interval(sample, error=0.1)
        assert interval is not None
        num_missed += not interval[0] <= 0.3 <= interval[1]
    assert 45 <= num_missed <= 106
