"""Which adjacent length is probed, when, and for which price."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.adjacent_length_probe import AdjacentLengthProbe
from paceline.governor.values import DraftPlan, EngineLoad
from unit.governor.exploration.recording_budget import RecordingBudget

LOAD = EngineLoad(4, 900, 0, 0, 3)
# Length 2 is the best. 3 would be, were its last position accepted twice as often.
FORECAST = StepForecast(
    [4.0, 6.0, 7.0, 7.5], [0.020, 0.024, 0.027, 0.030], [200.0, 250.0, 259.3, 250.0]
)


@dataclass
class Acceptance:
    """Survival of the forecast; `optimistic` is one standard error higher."""

    optimistic: float = 0.25
    survival: list[float] = field(default_factory=lambda: [0.5, 0.25, 0.125])

    def optimistic_survival(self, length: int) -> float:
        return self.optimistic


@dataclass
class Cost:
    measured: set[int] = field(default_factory=lambda: {0, 1, 2, 3})
    asked: set[int] = field(default_factory=set)

    def is_measured(self, num_requests: int, length: int) -> bool:
        self.asked.add(num_requests)
        return length in self.measured


class Loop:
    def __init__(self, *, optimistic: float = 0.25, unmeasured: tuple[int, ...] = ()) -> None:
        self.cost = Cost({0, 1, 2, 3} - set(unmeasured))
        self.budget = RecordingBudget()
        self.probing = AdjacentLengthProbe(
            Acceptance(optimistic),  # type: ignore[arg-type]
            self.cost,  # type: ignore[arg-type]
            self.budget,
        )

    def steps(self, num_steps: int, now: int = 2) -> list[DraftPlan | None]:
        return [self.probing.probe(LOAD, FORECAST, now) for _ in range(num_steps)]


def test_a_longer_draft_that_may_win_is_probed_every_24_steps() -> None:
    plans = Loop().steps(72)
    assert [i + 1 for i, plan in enumerate(plans) if plan is not None] == [24, 48, 72]
    plan = plans[23]
    assert plan is not None
    assert (plan.draft_length, plan.is_exploring) == (3, True)
    assert plan.reason == "probe: one step at 3 instead of 2"


@pytest.mark.parametrize(("optimistic", "is_probed"), [(0.194, False), (0.196, True)])
def test_a_longer_draft_is_probed_if_it_would_win_one_standard_error_higher(
    optimistic: float, is_probed: bool
) -> None:
    """It needs 259.3 / 250 of its tokens: 1.875 * 0.037 = 0.0698 more than 0.125."""
    found = Loop(optimistic=optimistic).steps(24)[-1]
    assert (found is not None) is is_probed


@pytest.mark.parametrize("unmeasured", [1, 3])
def test_a_length_without_a_measurement_is_probed_whether_it_may_win_or_not(
    unmeasured: int,
) -> None:
    loop = Loop(optimistic=0.0, unmeasured=(unmeasured,))
    plan = loop.steps(24)[-1]
    assert plan is not None
    assert plan.draft_length == unmeasured
    assert loop.cost.asked == {4}


def test_the_longer_one_comes_first() -> None:
    plan = Loop(unmeasured=(1, 3)).steps(24)[-1]
    assert plan is not None
    assert plan.draft_length == 3


def test_a_shorter_draft_that_was_measured_is_not_probed() -> None:
    assert Loop(optimistic=0.0).steps(200) == [None] * 200


def test_length_0_is_probed_below_length_1() -> None:
    plan = Loop(optimistic=0.0, unmeasured=(0,)).steps(24, 1)[-1]
    assert plan is not None
    assert plan.draft_length == 0


@pytest.mark.parametrize(("now", "probed"), [(3, 2), (0, 1)])
def test_no_length_outside_the_forecast_is_probed(now: int, probed: int) -> None:
    """At the longest only the shorter one, at 0 only the longer one."""
    loop = Loop(optimistic=0.0, unmeasured=(-1, 0, 1, 2, 3, 4))
    plan = loop.steps(24, now)[-1]
    assert plan is not None
    assert plan.draft_length == probed
    assert Loop(optimistic=0.0, unmeasured=(-1, 4)).steps(24, now)[-1] is None


def test_a_probe_pays_its_price_once() -> None:
    loop = Loop()
    loop.steps(30)
    price_s = pytest.approx(0.030 - 0.027)
    assert loop.budget.asked == [(price_s, 0.027)]
    assert loop.budget.paid == [price_s]


def test_a_probe_that_is_not_covered_waits_for_the_budget_and_not_longer() -> None:
    loop = Loop()
    loop.budget.is_rich = False
    assert loop.steps(100) == [None] * 100
    assert loop.budget.paid == []
    loop.budget.is_rich = True
    assert loop.steps(1) != [None]


def test_a_probe_is_settled_with_the_time_of_its_steps() -> None:
    """The step that drafts 3 takes 0.028 s for 4 requests with 3 accepted, the one that verifies
    them 0.031 s, also for 7 tokens. At length 2 a token takes 0.027 / 7 s, so 0.005 s were wasted
    and 0.003 s are paid already."""
    loop = Loop()
    loop.steps(24)
    step = ordinary_sample(drafted=(2, 2, 2), accepted=(2, 1, 0), verified_draft_tokens=6)
    loop.probing.observe(replace(step, requested_draft_length=2, draft_length=3, duration_s=0.028))
    loop.probing.observe(replace(step, requested_draft_length=3, draft_length=2, duration_s=0.031))
    assert loop.budget.paid == pytest.approx([0.003, 0.005 - 0.003])
