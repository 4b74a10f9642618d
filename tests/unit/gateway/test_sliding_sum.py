"""Sums over a sliding window of time."""

import random

from paceline.runtime.gateway.sliding_sum import SlidingSum


def test_an_amount_counts_for_the_length_of_the_window() -> None:
    window = SlidingSum(10)
    window.add(2, 100.5)
    assert window.total(109.9) == 2
    assert window.total(110.0) == 0


def test_sum_stays_between_that_of_nine_tenths_and_of_the_whole_window() -> None:
    rng = random.Random(1)
    window, added, now_s = SlidingSum(10), [], 1000.0
    for _ in range(3000):
        now_s += rng.choice((0.0, 0.01, 0.3, 1.0, 1.7, 11.0))
        window.add(1, now_s)
        added.append(now_s)
        total = window.total(now_s)
        assert sum(at_s > now_s - 9 for at_s in added[-2000:]) <= total
        assert total <= sum(at_s > now_s - 10 for at_s in added[-2000:])


def test_a_clock_that_steps_back_loses_nothing() -> None:
    window = SlidingSum(10)
    window.add(1, 50.0)
    window.add(1, 42.0)
    assert window.total(41.0) == 2
    assert window.total(50.0) == 2
    assert window.total(61.0) == 0
