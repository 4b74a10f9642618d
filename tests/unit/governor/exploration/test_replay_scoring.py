"""The distance between orders for replay scores, and who pays for them."""

from __future__ import annotations

from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.replay_scoring import ReplayScoringSchedule
from paceline.governor.values import ReplayScores, StepSample

STEP_S = 0.02


def report(*, seconds: float = 1e-6, computed: int = 64, missing: int = 0) -> ReplayScores:
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
    assert loop.steps(4) == [0, 0, 0, 64 + 300]
