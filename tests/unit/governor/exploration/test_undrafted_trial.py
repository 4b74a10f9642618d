"""When length 0 is tried while drafting, for how long and for which price."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.undrafted_trial import UndraftedTrial
from paceline.governor.values import DraftPlan, EngineLoad, StepSample
from unit.governor.exploration.recording_budget import RecordingBudget

LOAD = EngineLoad(4, 900, 0, 0, 2)


def forecast(gain: float) -> StepForecast:
    """Drafting two tokens yields `gain` times the tokens per second of length 0."""
    return StepForecast([4.0, 6.0, 8.0], [0.020, 0.040, 0.040 / gain], [200.0, 150.0, 200.0 * gain])


@dataclass
class Cost:
    known: float = 0.0
    is_settled: bool = True

    def num_undrafted(self, num_requests: int) -> float:
        assert num_requests == LOAD.num_requests
        return self.known


def trials(
    num_steps: int, *, known: float = 0.0, gain: float = 1.1, budget: RecordingBudget | None = None
) -> list[int]:
    """The steps, from 1, at which length 0 is tried."""
    trial = UndraftedTrial(Cost(known), budget or RecordingBudget())  # type: ignore[arg-type]
    plans = [trial.probe(LOAD, forecast(gain), 2) for _ in range(num_steps)]
    return [step for step, plan in enumerate(plans, 1) if plan is not None]


@pytest.mark.parametrize("known", [0.0, 2.0])
def test_an_unknown_load_is_tried_after_every_four_steps(known: float) -> None:
    assert trials(16, known=known) == [4, 5, 9, 10, 14, 15]


def test_a_known_load_is_tried_after_96_steps() -> None:
    assert trials(200, known=3.0) == [96, 97, 193, 194]


@pytest.mark.parametrize(("known", "is_tried"), [(2.0, True), (3.0, False)])
def test_a_known_load_is_not_tried_while_the_machine_changes(known: float, is_tried: bool) -> None:
    trial = UndraftedTrial(Cost(known, is_settled=False), RecordingBudget())  # type: ignore[arg-type]
    plans = [trial.probe(LOAD, forecast(1.1), 2) for _ in range(200)]
    assert any(plans) is is_tried


@pytest.mark.parametrize(
    ("known", "gain", "is_tried"),
    [(0.0, 1.49, True), (0.0, 1.51, False), (3.0, 1.24, True), (3.0, 1.26, False)],
)
def test_where_drafting_wins_by_far_there_are_no_trials(
    known: float, gain: float, is_tried: bool
) -> None:
    assert bool(trials(100, known=known, gain=gain)) is is_tried


def test_a_trial_pays_for_both_of_its_steps() -> None:
    """At equal rates a step costs the least price, 2 % of a step at the length in force."""
    budget = RecordingBudget()
    trials(5, gain=1.0, budget=budget)
    ((price_s, step_s),) = budget.asked
    assert price_s == pytest.approx(2 * 0.02 * 0.040)
    assert step_s == 0.040
    assert budget.paid == [pytest.approx(0.02 * 0.040)] * 2


def sample(requested: int, length: int, *, accepted: int, duration_s: float) -> StepSample:
    """A step of four requests, of which each verified `requested` drafts and drafts `length`."""
    drafts = 4 if requested else 0
    return StepSample(
        num_requests=4,
        requested_draft_length=requested,
        drafted=(requested,) * drafts,
        accepted=(accepted,) * drafts,
        verified_draft_tokens=requested * drafts,
        draft_length=length,
        prefill_tokens=0,
        context_tokens=900,
        duration_s=duration_s,
        is_clean=True,
    )


def test_a_trial_is_settled_with_the_time_that_its_steps_wasted() -> None:
    """At length 2 a token takes 5 ms. The step that still verifies yields 8 tokens in 41 ms, the
    next two 4 each in 21 ms: 3 ms are wasted, of which 1.6 were paid."""
    budget = RecordingBudget()
    trial = UndraftedTrial(Cost(), budget)  # type: ignore[arg-type]
    for step in range(5):
        plan = trial.probe(LOAD, forecast(1.0), 2)
        assert (plan is not None) is (step >= 3)
    trial.observe(sample(2, 0, accepted=1, duration_s=0.041))
    trial.observe(sample(0, 0, accepted=0, duration_s=0.021))
    assert len(budget.paid) == 2
    trial.observe(sample(0, 2, accepted=0, duration_s=0.021))
    assert budget.paid[2] == pytest.approx(0.003 - 0.0016)


def test_a_budget_that_does_not_cover_it_is_not_spent() -> None:
    budget = RecordingBudget(is_rich=False)
    assert trials(50, budget=budget) == []
    assert budget.paid == []


def test_the_plan_says_what_it_is() -> None:
    trial = UndraftedTrial(Cost(), RecordingBudget())  # type: ignore[arg-type]
    *_, plan = (trial.probe(LOAD, forecast(1.0), 2) for _ in range(4))
    assert plan == DraftPlan(0, "trial: no drafts instead of 2", is_exploring=True)


def test_a_hastened_trial_is_made_at_once() -> None:
    trial = UndraftedTrial(Cost(3.0), RecordingBudget())  # type: ignore[arg-type]
    assert trial.probe(LOAD, forecast(1.1), 2) is None
    trial.hasten()
    assert trial.probe(LOAD, forecast(1.1), 2) is not None
