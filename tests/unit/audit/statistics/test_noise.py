"""Noise is measured by its median, a high quantile and the root mean square."""

from __future__ import annotations

import pytest

from paceline.workbench.audit.statistics.greedy import number_format
from paceline.workbench.audit.statistics.noise import Noise, measure_noise


def test_the_sizes_of_noise() -> None:
    """Root mean square of 3, 4 and 5: sqrt(50 / 3)."""
    assert measure_noise([4.0, 3.0, 5.0]) == Noise(4.0, 5.0, pytest.approx((50 / 3) ** 0.5))


def test_without_a_comparison_the_noise_is_unknown() -> None:
    assert measure_noise([]) is None


def test_rare_large_differences_decide_the_number_format() -> None:
    """95 equal values and 5 that bfloat16 alone explains; the median is 0."""
    noise = measure_noise([0.0] * 95 + [0.1] * 5)
    assert noise is not None
    assert noise.median_nats == 0.0
    assert number_format(noise.high_nats) == "bfloat16"
