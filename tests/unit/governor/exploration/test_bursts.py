"""When bursts start, how long they last, and what they pay in advance."""

from __future__ import annotations

import pytest

from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.bursts import Bursts
from paceline.governor.values import EngineLoad, StepSample
from unit.governor.exploration.recording_budget import RecordingBudget

STEP_S = 0.020


def forecast(num_requests: int = 4, drafting_s: float = 0.025) -> StepForecast:
    """20 ms, 25 ms and 30 ms at lengths 0 to 2; with half accepted, length 1 would win."""
    tokens = [num_requests * yields for yields in (1.0, 1.1, 1.11)]
    seconds = [STEP_S, drafting_s, 0.030]
    return StepForecast(tokens, seconds, [t / s for t, s in zip(tokens, seconds, strict=True)])


class Loop:
    """Bursts in an engine at length 0, whose verdicts come one step after the draft."""

    def __init__(
        self,
        num_requests: int = 4,
        *,
        catch_up_s: float = 0.0,
        allowed: tuple[int, ...] | None = None,
    ) -> None:
        """`catch_up_s`: what the first step of a burst takes longer where the drafter rests."""
        self.catch_up_s = catch_up_s
        self.allowed = allowed
        self.budget = RecordingBudget()
        self.bursts = Bursts(self.budget, CostModel())
        self.num_requests = num_requests
        self.drafting_s = 0.025
        self._before = 0

    def step(
        self, accepted: int = 0, *, catches_up: bool = False, offers_drafts: bool = True
    ) -> int:
        """The length of the next step; `accepted` of the drafts of the one before."""
        load = EngineLoad(self.num_requests, 900, 0, 0, 2, allowed_lengths=self.allowed)
        plan = self.bursts.probe(load, forecast(self.num_requests, self.drafting_s))
        assert all(step_s == STEP_S for _, step_s in self.budget.asked)
        length = 0 if plan is None else plan.draft_length
        if plan is not None:
            assert plan.is_exploring
        has_verdicts = self._before > 0 and offers_drafts and not catches_up
        count = self.num_requests if has_verdicts else 0
        catches_up = catches_up or (self.catch_up_s > 0.0 and self._before == 0 < length)
        self.bursts.observe(
            StepSample(
                num_requests=self.num_requests,
                requested_draft_length=self._before,
                drafted=(1,) * count,
                accepted=tuple(int(i < accepted) for i in range(count)),
                verified_draft_tokens=count,
                draft_length=length,
                prefill_tokens=0,
                context_tokens=900,
                duration_s=STEP_S + 0.005 * length + self.catch_up_s * catches_up,
                is_clean=not catches_up,
                catches_up=catches_up,
            )
        )
        self._before = length
        return length

    def lengths(self, num_steps: int, accepted: int = 0) -> list[int]:
        return [self.step(accepted) for _ in range(num_steps)]

    def until_burst(self) -> int:
        for number in range(1, 1000):
            if self.step():
                return number
        raise AssertionError("no burst within 1,000 steps")


def test_hopeless_text_costs_one_or_two_steps_every_24() -> None:
    """Eight verdicts end a burst: two steps of four requests, one of eight."""
    assert Loop(4).lengths(60) == ([0] * 23 + [1, 1]) * 2 + [0] * 10
    assert Loop(8).lengths(50) == ([0] * 23 + [1]) * 2 + [0] * 2
    assert Loop(1).lengths(27) == [0] * 23 + [1, 1, 0, 0]


def test_a_hastened_burst_starts_at_once() -> None:
    loop = Loop(8)
    assert loop.lengths(3) == [0, 0, 0]
    loop.bursts.hasten()
    assert loop.lengths(3) == [1, 0, 0]


def test_promising_text_extends_a_burst_to_eight_steps() -> None:
    loop = Loop()
    loop.until_burst()
    assert loop.lengths(9, accepted=4) == [1] * 7 + [0] * 2


def test_a_burst_ends_when_its_text_stops_being_promising() -> None:
    """Length 1 wins above an acceptance of 1/4: with 2 of 5 and 3 of 10, not with 2 of 10 or 3 of
    15."""
    for verdicts, found in (((2, 0, 0), [1, 1, 0]), ((2, 1, 0, 0), [1, 1, 1, 0])):
        loop = Loop(5)
        loop.until_burst()
        assert [loop.step(accepted) for accepted in verdicts] == found


@pytest.mark.parametrize(("accepted", "continues"), [(4, True), (0, False)])
def test_the_first_verdicts_decide(accepted: int, continues: bool) -> None:
    """Those of two steps of four requests."""
    loop = Loop()
    loop.until_burst()
    assert loop.step(accepted) == 1
    assert loop.step(accepted) == int(continues)


def test_a_burst_waits_for_the_budget_and_not_longer() -> None:
    loop = Loop()
    loop.budget.is_rich = False
    assert loop.lengths(100) == [0] * 100
    assert loop.budget.paid == []
    loop.budget.is_rich = True
    assert loop.step() == 1


def test_the_first_steps_are_covered_before_a_burst_starts() -> None:
    """4 requests need two steps, 8 need one. Each wastes 5 ms if nothing is accepted."""
    for num_requests, num_steps in ((1, 2), (4, 2), (7, 2), (8, 1), (100, 1)):
        loop = Loop(num_requests)
        loop.until_burst()
        assert loop.budget.asked == [(pytest.approx(num_steps * 0.005), STEP_S)]


def test_each_step_pays_its_price_in_advance() -> None:
    loop = Loop(8)
    loop.until_burst()
    assert loop.budget.paid[:2] == [0.0, pytest.approx(0.005)]


def test_after_switching_off_a_full_pause_passes() -> None:
    loop = Loop()
    loop.lengths(20)
    loop.bursts.switched_off()
    assert loop.until_burst() == 24


def test_switching_off_ends_a_burst() -> None:
    loop = Loop()
    loop.until_burst()
    loop.bursts.switched_off()
    assert loop.until_burst() == 24


def test_a_burst_waits_for_the_verdict_it_paid_for_while_the_drafter_catches_up() -> None:
    """One request: two steps catch up, and the burst continues until it is judged, to 8 at most."""
    loop = Loop(1)
    loop.until_burst()
    found = [loop.step(catches_up=True) for _ in range(9)]
    assert found == [1] * 7 + [0] * 2


def test_catching_up_is_paid_as_measured_and_in_advance_from_then_on() -> None:
    """25 ms more; a cost model that knows nothing predicts 0, so the whole step counts: 50 ms."""
    loop = Loop(8, catch_up_s=0.025)
    loop.until_burst()
    assert loop.budget.paid[0] == 0.0
    assert sum(loop.budget.paid) == pytest.approx(0.005 + 0.050)
    while loop.step():
        pass
    loop.budget.asked.clear()
    loop.budget.paid.clear()
    loop.until_burst()
    # Two steps, because the verdict comes one step later, and what catching up took.
    assert loop.budget.asked == [(pytest.approx(2 * 0.005 + 0.050), STEP_S)]
    assert loop.budget.paid[0] == pytest.approx(0.050)
    assert sum(loop.budget.paid) == pytest.approx(0.005 + 0.050)


def test_a_burst_drafts_the_shortest_length_that_is_allowed() -> None:
    assert Loop(8, allowed=(0, 2, 5)).lengths(26) == [0] * 23 + [2, 0, 0]


def test_where_no_length_is_allowed_nothing_is_tried() -> None:
    assert Loop(allowed=(0,)).lengths(100) == [0] * 100


@pytest.mark.parametrize(("accepted", "continues"), [(2, True), (1, False)])
def test_only_a_length_that_is_allowed_is_promising(accepted: int, continues: bool) -> None:
    """Length 1 would win at an acceptance of 1/3, length 2 above 0.37 only: with 2 of 3."""
    loop = Loop(3, allowed=(0, 2))
    loop.until_burst()
    assert loop.step(accepted) == 2
    assert loop.step(accepted) == (2 if continues else 0)


def test_a_burst_is_settled_with_the_time_and_the_tokens_of_its_steps() -> None:
    """8 requests, 2.5 ms a token at length 0: 5 ms more for drafting, and one token is accepted."""
    loop = Loop(8)
    loop.until_burst()
    assert [loop.step(accepted=1), loop.step()] == [0, 0]
    assert sum(loop.budget.paid) == pytest.approx(0.005 - 0.0025)


def test_a_single_verdict_is_enough_to_continue() -> None:
    loop = Loop(1)
    loop.until_burst()
    assert loop.lengths(3, accepted=1) == [1, 1, 1]


def test_a_burst_continues_when_its_verdict_comes_after_it_has_stopped() -> None:
    """Eight requests need one step, and its verdict comes a step later: seven more steps follow."""
    loop = Loop(8)
    loop.until_burst()
    assert loop.lengths(10, accepted=8) == [0] + [1] * 7 + [0] * 2


def test_a_burst_without_a_verdict_is_given_up_after_a_pause() -> None:
    """Its drafter offers nothing: the burst waits 24 steps, then the next one starts."""
    loop = Loop(8)
    loop.until_burst()
    assert [loop.step(offers_drafts=False) for _ in range(26)] == [0] * 24 + [1, 0]


def test_a_burst_that_a_single_bad_verdict_ended_is_over() -> None:
    """Also where drafting becomes so cheap afterwards that its text would be promising."""
    loop = Loop(1)
    loop.until_burst()
    assert loop.step() == 1
    assert loop.step(offers_drafts=False) == 0
    loop.drafting_s = 0.010
    assert loop.until_burst() == 23


def test_catching_up_outside_of_a_burst_is_not_paid() -> None:
    """Where drafting has won, it costs the time that the choice of the length has counted."""
    loop = Loop()
    for _ in range(3):
        assert loop.step(catches_up=True) == 0
    assert loop.bursts.catch_up.token_s > 0.0
    assert loop.budget.paid == []


def test_catching_up_twice_in_a_burst_is_paid_twice() -> None:
    """What was paid in advance counts once: for the first of the two steps."""
    loop = Loop(1, catch_up_s=0.025)
    loop.until_burst()
    while loop.step():
        pass
    loop.budget.paid.clear()
    loop.until_burst()
    assert loop.budget.paid[0] == pytest.approx(0.050)
    measured = [paid for paid in loop.budget.paid[1:] if paid != pytest.approx(0.005)]
    assert measured == [pytest.approx(0.0)]
    loop.budget.paid.clear()
    loop.step(catches_up=True)
    assert loop.budget.paid == [pytest.approx(0.005), pytest.approx(0.050)]
