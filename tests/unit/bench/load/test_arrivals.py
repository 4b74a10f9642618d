"""Open-loop schedules are Poisson, bounded and repeatable."""

import numpy as np
import pytest

from paceline.bench.load.arrivals import poisson_arrivals


def test_gaps_are_exponential_with_the_mean_of_the_rate() -> None:
    """For an exponential, mean and standard deviation are both 1/rate = 0.1 s."""
    gaps = np.diff(poisson_arrivals(10.0, seed=1, num_requests=20_000))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(0.1, rel=0.05)
    assert gaps.std() == pytest.approx(0.1, rel=0.05)


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others() -> None:
    first = poisson_arrivals(5.0, seed=3, num_requests=50)
    assert (first == poisson_arrivals(5.0, seed=3, num_requests=50)).all()
    assert (first != poisson_arrivals(5.0, seed=4, num_requests=50)).all()


def test_a_longer_schedule_begins_with_the_shorter() -> None:
    short = poisson_arrivals(5.0, seed=3, num_requests=10)
    assert (poisson_arrivals(5.0, seed=3, num_requests=20)[:10] == short).all()


def test_a_duration_alone_bounds_the_arrivals() -> None:
    offsets = poisson_arrivals(100.0, seed=0, duration_s=10.0)
    assert offsets[-1] < 10.0
    assert 900 <= len(offsets) <= 1100  # 1000 expected, standard deviation 32


def test_whichever_bound_comes_first_ends_the_schedule() -> None:
    assert len(poisson_arrivals(100.0, seed=0, num_requests=5, duration_s=10.0)) == 5
    assert len(poisson_arrivals(1.0, seed=0, num_requests=1000, duration_s=10.0)) < 50


def test_bounds_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        poisson_arrivals(0.0, seed=0, num_requests=1)
    with pytest.raises(ValueError, match="has no end; give num_requests or duration_s"):
        poisson_arrivals(1.0, seed=0)
