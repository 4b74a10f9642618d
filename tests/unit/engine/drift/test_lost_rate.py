"""What a shift costs, worked out."""

from __future__ import annotations

import pytest

from paceline.runtime.engine.drift.category_watch import AcceptanceLevel, AcceptanceShift
from paceline.runtime.engine.drift.lost_rate import CostCurve, lost_rate, tokens_per_step


def level(*hazards: float, variance: float = 0.0, num: int = 100) -> AcceptanceLevel:
    return AcceptanceLevel(hazards[0], variance, num, hazards)


FELL = AcceptanceShift(level(0.8, 0.5), level(0.5, 0.5))
CURVE = CostCurve(4, {0: 0.010, 1: 0.012, 2: 0.014})


def test_the_best_length_before_is_compared_with_the_best_now() -> None:
    """Before: 2.2 tokens in 14 ms beat 1.8 in 12 ms. Now: 1.5 in 12 ms equal 1.75 in 14 ms."""
    lost = lost_rate(FELL, CURVE, 1.0)
    assert lost.value == pytest.approx(4 * (2.2 / 0.014 - 1.5 / 0.012))
    assert (lost.low, lost.high) == pytest.approx((lost.value, lost.value))
    assert (lost.tokens_before, lost.tokens_now) == pytest.approx((2.2, 1.75))


def test_without_drafts_no_more_is_lost() -> None:
    """All drafts are rejected now: length 0 is best."""
    lost = lost_rate(AcceptanceShift(level(0.8), level(0.0)), CURVE, 1.0)
    assert lost.tokens_now == 1.0
    assert lost.value == pytest.approx(4 * (2.44 / 0.014 - 1 / 0.010))


def test_a_category_costs_by_its_share() -> None:
    assert lost_rate(FELL, CURVE, 0.25).value == pytest.approx(
        lost_rate(FELL, CURVE, 1.0).value / 4
    )


def test_a_rise_gains() -> None:
    assert lost_rate(AcceptanceShift(FELL.now, FELL.before), CURVE, 1.0).value < 0


def test_the_interval_contains_the_value_and_widens_with_the_variance() -> None:
    def width(variance: float) -> float:
        shift = AcceptanceShift(
            level(0.8, 0.5, variance=variance), level(0.5, 0.5, variance=variance)
        )
        lost = lost_rate(shift, CURVE, 1.0)
        assert lost.low < lost.value < lost.high
        return lost.high - lost.low

    assert width(0.04) > width(0.01)


def test_one_measured_length_is_enough() -> None:
    """At length 2 only: 2.2 against 1.75 tokens."""
    lost = lost_rate(FELL, CostCurve(1, {2: 0.02}), 1.0)
    assert lost.value == pytest.approx((2.2 - 1.75) / 0.02)


def test_a_category_without_verdicts_yields_the_targets_own_token() -> None:
    assert tokens_per_step((), 3) == 1.0
