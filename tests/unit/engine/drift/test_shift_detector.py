"""A shift of a mean is found soon, and none is found where there is none."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from paceline.runtime.engine.drift.shift_detector import ShiftDetector, long_run_variance

MEAN, SPREAD = 0.6, 0.15


def values(mean: float, num: int, seed: int) -> list[float]:
    """Beta distributed, with the standard deviation `SPREAD`."""
    strength = mean * (1 - mean) / SPREAD**2 - 1
    drawn = np.random.default_rng(seed).beta(strength * mean, strength * (1 - mean), num)
    return [float(value) for value in drawn]


def flagged_after(detector: ShiftDetector, given: Iterable[float]) -> int | None:
    """Values until the flag; None without one."""
    for number, value in enumerate(given, start=1):
        detector.add(value)
        if detector.evidence >= 1.0:
            return number
    return None


def detector() -> ShiftDetector:
    return ShiftDetector(MEAN, SPREAD**2, 400)


@pytest.mark.parametrize("shift", [-0.1, 0.1])
def test_a_shift_of_a_tenth_is_found_within_200_values(shift: float) -> None:
    for seed in range(40):
        watching = detector()
        found = flagged_after(watching, values(MEAN + shift, 300, seed))
        assert found is not None
        assert found <= 200
        assert watching.rises == (shift > 0)


def test_there_is_no_flag_in_10000_values_without_a_shift() -> None:
    assert [flagged_after(detector(), values(MEAN, 10_000, seed)) for seed in range(8)] == [
        None
    ] * 8


def test_a_shift_within_the_slack_is_not_found() -> None:
    """The reference may be wrong by as much: two standard errors, 0.02."""
    assert flagged_after(detector(), values(MEAN + 0.02, 10_000, 1)) is None


def test_a_large_shift_is_found_sooner() -> None:
    found = flagged_after(detector(), values(MEAN - 0.3, 200, 1))
    assert found is not None
    assert found < 40


def test_the_likeliest_time_of_the_change_is_known() -> None:
    watching = detector()
    assert flagged_after(watching, values(MEAN, 500, 2)) is None
    found = flagged_after(watching, values(MEAN - 0.1, 300, 3))
    assert found is not None
    assert abs(watching.num_since_change(rises=False) - found) < 40


@pytest.mark.parametrize(("mean", "value"), [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
def test_traffic_that_never_varies_is_watched_too(mean: float, value: float) -> None:
    """Bets are bounded, so that no value makes a capital negative."""
    constant = ShiftDetector(mean, 1e-4, 400)
    assert flagged_after(constant, [value] * 5000) is None
    assert flagged_after(constant, [abs(1.0 - mean) if mean != 0.5 else 1.0] * 60) is not None


def test_values_that_resemble_the_one_before_raise_the_variance() -> None:
    """Sessions of ten with one value each: means of 20 vary as those of two independent values."""
    independent = values(MEAN, 4000, 5)
    sessions = [value for value in independent[:400] for _ in range(10)]
    assert long_run_variance(independent) == pytest.approx(SPREAD**2, rel=0.25)
    assert long_run_variance(sessions) == pytest.approx(10 * SPREAD**2, rel=0.25)
