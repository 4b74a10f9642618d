"""Open-loop schedules are Poisson, bounded and repeatable."""

import numpy as np
import pytest

from paceline.foundation.load.arrivals import poisson_arrivals, schedule_arrivals
from paceline.foundation.load.loads import OpenLoop


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


def test_bursts_have_the_mean_rate_and_the_stated_variation() -> None:
    """Gamma gaps of shape 0.25 vary by 1 / sqrt(0.25) = 2 times their mean; Poisson gaps by 1."""
    load = OpenLoop(10.0, burstiness=0.25)
    gaps = np.diff(schedule_arrivals(load, seed=1, num_requests=40_000))
    assert gaps.mean() == pytest.approx(0.1, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.05)


def test_a_ramp_changes_the_rate_linearly() -> None:
    """From 100 to 300/s over 40 s: quarters of 10 s have mean rates 125, 175, 225 and 275."""
    load = OpenLoop(100.0, final_rate_per_s=300.0)
    offsets = schedule_arrivals(load, seed=1, duration_s=40.0)
    counts, _ = np.histogram(offsets, bins=4, range=(0.0, 40.0))
    assert counts.tolist() == pytest.approx([1250, 1750, 2250, 2750], rel=0.08)
    assert (np.diff(offsets) >= 0).all()


def test_a_falling_ramp_mirrors_a_rising_one() -> None:
    load = OpenLoop(300.0, final_rate_per_s=100.0)
    counts, _ = np.histogram(schedule_arrivals(load, 1, None, 40.0), bins=4, range=(0.0, 40.0))
    assert counts.tolist() == pytest.approx([2750, 2250, 1750, 1250], rel=0.08)


def test_a_ramp_without_a_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a duration"):
        schedule_arrivals(OpenLoop(1.0, final_rate_per_s=2.0), seed=0, num_requests=5)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"rate_per_s": 0.0}, "rate_per_s is 0.0; it must be above 0"),
        ({"burstiness": -1.0}, "burstiness is -1.0; it must be above 0"),
        ({"final_rate_per_s": 0.0}, "final_rate_per_s is 0.0; it must be above 0"),
        ({"max_in_flight": 0}, "max_in_flight is 0; it must be at least 1"),
    ],
)
def test_loads_that_make_no_sense_are_refused(field: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OpenLoop(**{"rate_per_s": 1.0, **field})  # type: ignore[arg-type]
