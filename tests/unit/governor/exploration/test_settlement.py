"""Explorations are settled at what their steps measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.settlement import Settlement
from paceline.governor.values import StepSample

TOKEN_S = 0.0025
"""Four requests at 10 ms a step: what a token costs at the length in force."""


class Credit(ExplorationBudget):
    """A budget that shows what was paid."""

    paid_s = 0.0

    def pay(self, price_s: float) -> None:
        self.paid_s += price_s


def step(
    drafted: int, verified: int, seconds: float, accepted: int = 0, prefill_tokens: int = 0
) -> StepSample:
    return StepSample(
        num_requests=4,
        requested_draft_length=verified,
        drafted=(verified,) * 4 if verified else (),
        accepted=(accepted,) * 4 if verified else (),
        verified_draft_tokens=4 * verified,
        draft_length=drafted,
        prefill_tokens=prefill_tokens,
        context_tokens=100,
        duration_s=seconds,
        is_clean=True,
    )


def settled(*steps: StepSample, price_s: float = 0.004, num_paid: int = 1) -> float:
    """What the budget has paid after a probe at length 1 with these steps."""
    budget = Credit()
    settlement = Settlement(budget)
    for _ in range(num_paid):
        settlement.pay(price_s, length=1, token_s=TOKEN_S)
    assert budget.paid_s == pytest.approx(num_paid * price_s)
    for one in (*steps, step(0, 0, 0.010)):
        settlement.observe(one)
    return budget.paid_s


def test_the_measured_waste_replaces_the_forecast() -> None:
    """2 ms more for drafting and 5 ms more for verifying, and nothing accepted."""
    assert settled(step(1, 0, 0.012), step(0, 1, 0.015)) == pytest.approx(0.007)


def test_accepted_tokens_are_worth_their_time() -> None:
    """Two of the 7 ms are paid back by each request's token: 4 * 2.5 ms is more than all of it."""
    assert settled(step(1, 0, 0.012), step(0, 1, 0.015, accepted=1)) == 0.0


def test_a_burst_is_settled_as_a_whole() -> None:
    steps = (step(1, 0, 0.012), step(1, 1, 0.017), step(0, 1, 0.015))
    assert settled(*steps, num_paid=2) == pytest.approx(0.014)


def test_a_stall_costs_a_few_prices() -> None:
    assert settled(step(1, 0, 0.012), step(0, 1, 3.0)) == pytest.approx(4 * 0.004)


def test_a_step_with_prompt_tokens_wastes_half_of_the_forecast() -> None:
    steps = (step(1, 0, 0.012), step(0, 1, 0.5, prefill_tokens=300))
    assert settled(*steps) == pytest.approx(0.002 + 0.004 / 2)


def test_a_probe_that_never_ran_stays_paid_and_ends() -> None:
    """The next probe is settled by its own steps only."""
    budget = Credit()
    settlement = Settlement(budget)
    settlement.pay(0.004, length=1, token_s=TOKEN_S)
    for _ in range(20):
        settlement.observe(step(0, 0, 0.010))
    assert budget.paid_s == pytest.approx(0.004)
    settlement.pay(0.004, length=2, token_s=TOKEN_S)
    settlement.observe(step(1, 1, 0.5))  # of another length
    for one in (step(2, 0, 0.011), step(0, 2, 0.013), step(0, 0, 0.010)):
        settlement.observe(one)
    assert budget.paid_s == pytest.approx(0.004 + 0.004)
    settlement.observe(step(2, 2, 0.5))
    assert budget.paid_s == pytest.approx(0.008)


def test_a_probe_that_wins_ends_with_its_own_verification() -> None:
    """The policy continues at the probed length: these steps are no exploration, slow or not.

    Forecast 4 ms, measured 2 + 5 ms. The next probe starts from nothing.
    """
    budget = Credit()
    settlement = Settlement(budget)
    settlement.pay(0.004, length=1, token_s=TOKEN_S)
    for one in (step(1, 0, 0.012), step(1, 1, 0.015), *[step(1, 1, 0.040)] * 50):
        settlement.observe(one)
    assert budget.paid_s == pytest.approx(0.007)
    settlement.pay(0.004, length=2, token_s=TOKEN_S)
    for one in (step(2, 1, 0.011), step(1, 2, 0.013), step(1, 1, 0.040)):
        settlement.observe(one)
    assert budget.paid_s == pytest.approx(0.007 + 0.004)


@pytest.mark.parametrize(("num_others", "paid_s"), [(15, 0.007), (16, 0.004)])
def test_the_steps_of_a_probe_are_awaited_for_sixteen_samples(
    num_others: int, paid_s: float
) -> None:
    others = [step(0, 0, 0.010)] * num_others
    found = settled(*others, step(1, 0, 0.012), step(0, 1, 0.015))
    assert found == pytest.approx(paid_s)


def test_the_wait_starts_again_with_each_step_that_is_paid() -> None:
    """Ten samples after the first payment and ten after the second; then both steps arrive."""
    budget = Credit()
    settlement = Settlement(budget)
    for _ in range(2):
        settlement.pay(0.004, length=1, token_s=TOKEN_S)
        for _ in range(10):
            settlement.observe(step(0, 0, 0.010))
    for one in (step(1, 0, 0.012), step(1, 1, 0.017), step(0, 1, 0.015)):
        settlement.observe(one)
    assert budget.paid_s == pytest.approx(0.014)


def test_a_stall_in_a_burst_costs_a_few_prices_of_all_its_steps() -> None:
    steps = (step(1, 0, 0.012), step(1, 1, 3.0), step(0, 1, 0.015))
    assert settled(*steps, num_paid=2) == pytest.approx(4 * 0.008)


@pytest.mark.parametrize("changes", [{"is_clean": False}, {"duration_s": None}])
def test_a_step_that_was_not_measured_wastes_half_of_the_forecast(changes: dict[str, Any]) -> None:
    """Its accepted tokens are a gain as well: one of 2.5 ms."""
    drafts = replace(step(1, 0, 0.012), **changes)
    assert settled(drafts, step(0, 1, 0.015)) == pytest.approx(0.002 + 0.005)
    verifies = replace(step(0, 1, 0.5), num_requests=1, drafted=(1,), accepted=(1,), **changes)
    assert settled(step(1, 0, 0.013), verifies) == pytest.approx(0.003 + 0.002 - 0.0025)


def test_a_step_that_drafts_and_verifies_wastes_a_whole_price() -> None:
    steps = (step(1, 0, 0.012), replace(step(1, 1, 0.5), is_clean=False), step(0, 1, 0.015))
    assert settled(*steps, num_paid=2) == pytest.approx(0.002 + 0.004 + 0.005)


def test_without_a_probe_nothing_is_settled() -> None:
    budget = Credit()
    Settlement(budget).observe(step(1, 1, 0.5))
    assert budget.paid_s == 0.0


def test_a_probe_of_another_length_ends_the_one_before() -> None:
    """The first one stays at its forecast; the second takes 1 ms and 3 ms more."""
    budget = Credit()
    settlement = Settlement(budget)
    for length in (1, 2):
        settlement.pay(0.005, length=length, token_s=TOKEN_S)
    for one in (step(2, 0, 0.011), step(0, 2, 0.013)):
        settlement.observe(one)
    assert budget.paid_s == pytest.approx(0.005 + 0.004)


def test_each_probe_of_the_same_length_is_settled_by_its_own_steps() -> None:
    budget = Credit()
    settlement = Settlement(budget)
    for _ in range(2):
        settlement.pay(0.004, length=1, token_s=TOKEN_S)
        for one in (step(1, 0, 0.012), step(0, 1, 0.015)):
            settlement.observe(one)
    assert budget.paid_s == pytest.approx(2 * 0.007)


def test_other_steps_before_and_between_are_no_part_of_a_probe() -> None:
    """Drafts of the same length from before are verified, and one step verifies nothing."""
    steps = (step(0, 1, 0.5), step(1, 0, 0.012), step(0, 0, 0.5), step(0, 1, 0.015))
    assert settled(*steps) == pytest.approx(0.007)


def test_a_step_beyond_those_paid_for_wastes_no_drafting() -> None:
    """The probe has won, and the step that verifies it drafts as many tokens again."""
    verifies = replace(step(1, 1, 0.5), is_clean=False)
    assert settled(step(1, 0, 0.012), verifies) == pytest.approx(0.002 + 0.004 / 2)
