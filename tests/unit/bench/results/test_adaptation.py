"""The adaptation lag of throughput that changes at a known time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from paceline.foundation.results.adaptation import AdaptationRule, adaptation_lag
from paceline.foundation.results.series import TokenArrivals

RULE = AdaptationRule(window_s=1.0, tolerance_fraction=0.1)


def arrivals_at(rate_at: Callable[[float], float], end_s: float) -> TokenArrivals:
    """A chunk every millisecond that carries the tokens of this rate."""
    times_s = np.arange(0, end_s, 0.001)
    return TokenArrivals(times_s, np.cumsum([rate_at(t) * 0.001 for t in times_s]))


@pytest.mark.parametrize(("settled_s", "lag_s"), [(3.0, 2.8), (5.0, 4.8), (1.0, 0.8)])
def test_the_lag_ends_with_the_first_window_inside_the_tolerance(
    settled_s: float, lag_s: float
) -> None:
    """50 tokens/s, then 100. A window may hold a fifth of the slow time and be 10 % low."""
    arrivals = arrivals_at(lambda t: 50.0 if t < settled_s else 100.0, 20.0)
    found = adaptation_lag(arrivals, 0.0, 20.0, RULE)
    assert found.level_tokens_per_s == pytest.approx(100.0, rel=0.01)
    assert found.lag_s == pytest.approx(lag_s, abs=0.21)


def test_the_lag_counts_from_the_start_of_the_phase() -> None:
    """The phase begins at 10 s and settles at 14 s."""
    arrivals = arrivals_at(lambda t: 30.0 if t < 14.0 else 100.0, 40.0)
    found = adaptation_lag(arrivals, 10.0, 40.0, RULE)
    assert found.lag_s == pytest.approx(4.0, abs=0.21)


def test_a_dip_after_settling_restarts_the_lag() -> None:
    arrivals = arrivals_at(lambda t: 10.0 if 4.0 <= t < 5.0 else 100.0, 20.0)
    assert adaptation_lag(arrivals, 0.0, 20.0, RULE).lag_s == pytest.approx(5.0, abs=0.21)


def test_constant_throughput_has_no_lag() -> None:
    found = adaptation_lag(arrivals_at(lambda t: 100.0, 20.0), 0.0, 20.0, RULE)
    assert found.lag_s == 0.0
    assert found.note is None


def test_throughput_that_settles_after_the_middle_has_no_known_lag() -> None:
    arrivals = arrivals_at(lambda t: 10.0 if t < 10.0 else 100.0, 20.0)
    found = adaptation_lag(arrivals, 0.0, 20.0, RULE)
    assert found.lag_s is None
    assert found.note is not None
    assert "does not stay within 10%" in found.note


def test_a_phase_shorter_than_four_windows_has_no_known_lag() -> None:
    found = adaptation_lag(arrivals_at(lambda t: 100.0, 9.0), 0.0, 3.9, RULE)
    assert found.lag_s is None
    assert found.note == "the phase is too short: windows of 1 s need at least 4 s"


def test_a_phase_without_tokens_has_no_known_lag() -> None:
    found = adaptation_lag(TokenArrivals(np.empty(0), np.empty(0)), 0.0, 20.0, RULE)
    assert found.lag_s is None
    assert found.note == "no tokens arrived in the second half of the phase"


@pytest.mark.parametrize("rule", [{"window_s": 0.0}, {"tolerance_fraction": 1.0}])
def test_rules_that_make_no_sense_are_refused(rule: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        AdaptationRule(**rule)
