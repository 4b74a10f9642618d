"""The distance between orders for replay scores, and who pays for them."""

from __future__ import annotations

import math

import pytest

from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.replay_scoring import ReplayScoringSchedule
from paceline.governor.values import ReplayScores, StepSample

STEP_S = 0.02


def report(*, seconds: float = 1e-6, computed: int = 128, missing: int = 0) -> ReplayScores:
    judged = (4,) if missing == 0 else ()
    return ReplayScores(judged, judged, computed, missing, seconds)


def sample(scores: ReplayScores | None = None) -> StepSample:
    return StepSample(
        num_requests=4,
        requested_draft_length=0,
        drafted=(),
        accepted=(),
        verified_draft_tokens=0,
        draft_length=0,
        prefill_tokens=0,
        context_tokens=800,
        duration_s=STEP_S,
        is_clean=True,
        replay_scores=scores,
    )


class Loop:
    """A schedule at length 0, step by step."""

    def __init__(self) -> None:
        self.budget = ExplorationBudget()
        self.schedule = ReplayScoringSchedule(self.budget)

    def steps(self, num_steps: int) -> list[int]:
        """The orders of the next steps, without a report."""
        ordered = []
        for _ in range(num_steps):
            self.budget.earn(STEP_S)
            ordered.append(self.schedule.due(STEP_S))
            self.schedule.observe(sample())
        return ordered

    def until_order(self, limit: int = 10_000) -> int:
        """Steps until the next order."""
        for num_steps in range(1, limit):
            if self.steps(1)[0]:
                return num_steps
        raise AssertionError(f"no order within {limit} steps")

    def answer(self, scores: ReplayScores) -> None:
        self.schedule.observe(sample(scores))


def test_a_late_report_is_followed_by_as_long_a_pause_as_an_early_one() -> None:
    """Steps until the report are no clean cost samples; those after it must be, for a while."""
    early, late = Loop(), Loop()
    early.until_order()
    early.answer(report())
    late.until_order()
    late.steps(32)
    late.answer(report())
    assert early.until_order() == 16
    assert late.until_order() == 16


def test_the_time_of_a_report_is_paid_in_full() -> None:
    """Reports of half a step each: with a share of 0.4 %, one order in 125 steps."""
    loop = Loop()
    distances = []
    for _ in range(20):
        distances.append(loop.until_order())
        loop.answer(report(seconds=STEP_S / 2))
    assert 115 <= sum(distances[5:]) / 15 <= 180


def test_a_report_that_never_comes_is_given_up_after_64_steps() -> None:
    loop = Loop()
    loop.until_order()
    assert loop.until_order() == 64


def test_missing_tokens_are_ordered_as_well() -> None:
    """Soon after a report that could not judge anything, for the price of a whole prompt."""
    loop = Loop()
    loop.until_order()
    loop.answer(report(missing=300, seconds=0.01 * STEP_S))
    assert loop.steps(4) == [0, 0, 0, 128 + 300]


class Purse(ExplorationBudget):
    """A budget that keeps what was paid from it."""

    def __init__(self) -> None:
        super().__init__()
        self.paid: list[float] = []

    def pay(self, price_s: float) -> None:
        super().pay(price_s)
        if abs(price_s) > 1e-4 * STEP_S and abs(price_s / STEP_S - 0.001) > 1e-9:
            self.paid.append(price_s)


class Watched(Loop):
    """A loop that shows what was paid, but for the share that goes to the reserve."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = self.purse = Purse()
        self.schedule = ReplayScoringSchedule(self.purse)


def test_the_first_order_comes_after_16_steps_and_costs_nothing_yet() -> None:
    loop = Watched()
    assert loop.steps(16) == [0] * 15 + [128]
    assert loop.purse.paid == []
    assert loop.schedule.most_token_s == math.inf


def test_an_order_is_paid_by_its_forecast_and_settled_by_its_report() -> None:
    """0.1 steps at first, without a forecast; then 0.1 in advance and 0.05 more afterwards."""
    loop = Watched()
    loop.until_order()
    loop.answer(report(seconds=0.1 * STEP_S))
    loop.until_order()
    loop.answer(report(seconds=0.15 * STEP_S))
    assert loop.purse.paid == pytest.approx([0.1 * STEP_S, 0.1 * STEP_S, 0.05 * STEP_S])


def test_a_report_without_an_order_is_paid_too() -> None:
    loop = Watched()
    loop.steps(3)
    loop.answer(report(seconds=0.1 * STEP_S))
    assert loop.purse.paid == pytest.approx([0.1 * STEP_S])


def test_the_price_has_a_fixed_part_and_one_for_each_token() -> None:
    """1 ms and 10 microseconds a token; a pass of 128 spreads the fixed part over 128."""
    loop = Loop()
    for computed in (64, 640, 64, 320):
        loop.answer(report(computed=computed, seconds=0.001 + 1e-5 * computed))
    assert loop.schedule.most_token_s == pytest.approx(0.001 / 128 + 1e-5)


def test_a_report_that_computed_nothing_is_no_price() -> None:
    """One token is enough."""
    loop = Loop()
    loop.answer(report(computed=1, seconds=1e-5))
    assert loop.schedule.most_token_s == pytest.approx(1e-5)
    loop = Loop()
    loop.answer(report(computed=100, seconds=0.001))
    loop.answer(report(computed=0, seconds=0.5))
    assert loop.schedule.most_token_s == pytest.approx(1e-5)


def test_the_price_is_that_of_the_last_twenty_reports() -> None:
    """It doubles: after 14 reports about half of the change is learned, after 60 nearly all."""
    loop = Loop()
    for number in range(100):
        loop.answer(
            report(computed=64 + 64 * (number % 2), seconds=1e-5 * (64 + 64 * (number % 2)))
        )
    learned = []
    for number in range(60):
        computed = 64 + 64 * (number % 2)
        loop.answer(report(computed=computed, seconds=2e-5 * computed))
        learned.append(loop.schedule.most_token_s / 1e-5 - 1.0)
    assert 0.35 < learned[13] < 0.65
    assert learned[59] > 0.9


def test_a_quarter_of_what_is_earned_goes_to_the_reserve() -> None:
    """0.1 % of each step, which the budget does not have for anything else."""
    loop = Loop()
    loop.steps(1)
    credit_s = credit_of(loop.budget)
    loop.steps(10)
    assert credit_of(loop.budget) - credit_s == pytest.approx(10 * 0.003 * STEP_S)


def test_a_long_prompt_is_paid_from_the_reserve() -> None:
    """It starts with four steps, which cover 364 tokens at 0.01 steps each, once."""
    loop = Watched()
    loop.until_order()
    loop.answer(report(missing=236, computed=128, seconds=1.28 * STEP_S))
    paid = list(loop.purse.paid)
    assert loop.steps(4)[-1] == 128 + 236
    assert loop.purse.paid == paid
    loop.answer(report(missing=236, computed=364, seconds=3.64 * STEP_S))
    ordered = [tokens for tokens in loop.steps(1000) if tokens]
    assert set(ordered) == {128}  # what the budget itself can pay
    assert loop.purse.paid[len(paid)] == pytest.approx(1.28 * STEP_S)


def test_a_price_beyond_the_reserve_waits_until_it_is_full() -> None:
    """1,000 tokens at 0.01 steps are 10 steps; four fill the reserve, which may be overdrawn."""
    loop = Watched()
    loop.until_order()
    loop.answer(report(missing=872, computed=128, seconds=1.28 * STEP_S))
    assert loop.steps(4)[-1] == 1000
    loop.answer(report(missing=872, computed=1000, seconds=10.0 * STEP_S))
    # Six steps of debt and four to be full: 10,000 steps at 0.1 %.
    ordered = []
    for _ in range(11_000):
        [tokens] = loop.steps(1)
        ordered.append(tokens)
        if tokens:
            loop.answer(report(missing=872, computed=tokens, seconds=0.01 * tokens * STEP_S))
    assert ordered.count(1000) == 1
    assert 9_000 < ordered.index(1000) < 11_000


def credit_of(budget: ExplorationBudget) -> float:
    low, high = -1.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if budget.covers(middle, 1e9) else (low, middle)
    return low
