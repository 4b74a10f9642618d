"""What the budget earns, holds and pays."""

from __future__ import annotations

import pytest

from paceline.governor.exploration.exploration_budget import FIRST_TOKEN_SHARE, ExplorationBudget

STEP_S = 0.02


def after(num_steps: int, **arguments: float) -> ExplorationBudget:
    budget = ExplorationBudget(**arguments)
    for _ in range(num_steps):
        budget.earn(STEP_S)
    return budget


def credit_s(budget: ExplorationBudget) -> float:
    """The largest price that is covered, at steps too long for the budget to be full."""
    low, high = -1.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if budget.covers(middle, 1e9) else (low, middle)
    return low


def test_before_the_first_step_nothing_is_covered_or_paid() -> None:
    budget = ExplorationBudget()
    assert not budget.covers(0.0, STEP_S)
    budget.pay(5.0)
    budget.earn(STEP_S)
    assert credit_s(budget) == pytest.approx(1.004 * STEP_S)


def test_it_starts_with_one_step_and_earns_four_thousandths_of_each() -> None:
    assert credit_s(after(100)) == pytest.approx((1.0 + 0.4) * STEP_S)


def test_a_budget_may_have_another_share_and_start() -> None:
    budget = after(100, share=0.001, first_steps=2.0)
    assert credit_s(budget) == pytest.approx((2.0 + 0.1) * STEP_S)


def test_it_holds_four_steps() -> None:
    assert credit_s(after(100_000)) == pytest.approx(4.0 * STEP_S)


def test_credit_beyond_a_full_budget_is_kept_but_not_increased() -> None:
    """After steps of 20 ms come steps of 1 ms, of which a full budget holds 4 ms."""
    budget = after(100_000)
    for _ in range(10):
        budget.earn(0.001)
    assert credit_s(budget) == pytest.approx(4.0 * STEP_S)


def test_a_full_budget_covers_any_price_and_may_be_overdrawn() -> None:
    """The debt is earned back before anything else is covered."""
    budget = after(100_000)
    assert budget.covers(100.0, STEP_S)
    budget.pay(5.0 * STEP_S)
    assert credit_s(budget) == pytest.approx(-STEP_S)
    assert not budget.covers(0.0, STEP_S)
    for _ in range(251):
        budget.earn(STEP_S)
    assert budget.covers(0.0, STEP_S)
    assert not budget.covers(0.01 * STEP_S, STEP_S)


def test_a_price_is_covered_from_its_own_height_on() -> None:
    budget = after(100)
    assert budget.covers(1.39 * STEP_S, STEP_S)
    assert not budget.covers(1.41 * STEP_S, STEP_S)


def test_a_negative_price_is_a_refund() -> None:
    budget = after(100)
    budget.pay(-STEP_S)
    assert credit_s(budget) == pytest.approx(2.4 * STEP_S)


def test_verdicts_on_first_tokens_take_half_of_what_is_earned() -> None:
    assert pytest.approx(0.5 * 0.004) == FIRST_TOKEN_SHARE


def test_a_grant_adds_steps_up_to_a_full_budget() -> None:
    budget = after(1)
    budget.grant(2.0, STEP_S)
    assert credit_s(budget) == pytest.approx((1.004 + 2.0) * STEP_S)
    budget.grant(2.0, STEP_S)
    assert credit_s(budget) == pytest.approx(4.0 * STEP_S)


def test_a_grant_takes_nothing_from_a_budget_that_holds_more_than_a_full_one() -> None:
    """After steps of 20 ms come steps of 1 ms, of which a full budget holds 4 ms."""
    budget = after(100_000)
    budget.grant(2.0, 0.001)
    assert credit_s(budget) == pytest.approx(4.0 * STEP_S)


def test_before_the_first_step_nothing_is_granted() -> None:
    budget = ExplorationBudget()
    budget.grant(2.0, STEP_S)
    assert not budget.covers(0.0, STEP_S)
