"""What `goodput` plans for given forecasts: its estimators and probes are replaced by stubs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.first_profile import FirstProfile
from paceline.governor.policies import goodput
from paceline.governor.policies.goodput import GoodputPolicy
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

LOAD = EngineLoad(4, 1000, 0, 0, 8)
STEP_S = 0.02


def forecast(*values: float) -> StepForecast:
    """Steps of 20 ms at every length, with these values."""
    return StepForecast([value * STEP_S for value in values], [STEP_S] * len(values), [*values])


@dataclass
class CatchUp:
    """The measured cost of catching up, as given."""

    token_s: float = 0.0


@dataclass
class Probe:
    """A source of probes with a given answer, which keeps what it was asked."""

    answer: DraftPlan | None = None
    catch_up: CatchUp = field(default_factory=CatchUp)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    times_off: int = 0
    times_hastened: int = 0

    def probe(self, load: EngineLoad, forecast: StepForecast, *now: int) -> DraftPlan | None:
        self.asked.append(now)
        return self.answer

    def observe(self, sample: Any) -> None:
        """Nothing to settle."""

    def switched_off(self) -> None:
        self.times_off += 1

    def hasten(self) -> None:
        self.times_hastened += 1


class Purse(ExplorationBudget):
    """Keeps what is earned and paid."""

    def __init__(self) -> None:
        super().__init__()
        self.earned: list[float] = []
        self.granted: list[tuple[float, float]] = []
        self.paid: list[float] = []

    def grant(self, num_steps: float, step_s: float) -> None:
        self.granted.append((num_steps, step_s))

    def earn(self, step_s: float) -> None:
        self.earned.append(step_s)

    def pay(self, price_s: float) -> None:
        self.paid.append(price_s)


@dataclass
class Acceptance:
    """An estimate whose standard error is given."""

    error: float = 0.0

    def relative_error(self, length: int, other: int) -> float:
        return self.error


class Goodput(GoodputPolicy):
    """Past its profile, at the given length, with stubs."""

    def __init__(self, length: int = 2, *, max_step_s: float = math.inf) -> None:
        super().__init__(8, max_step_s=max_step_s)
        self._profile = FirstProfile(())
        self._cost.is_ready = True
        self._length = length
        self._acceptance = self.acceptance = Acceptance()  # type: ignore[assignment]
        self._adjacent_probe = self.adjacent = Probe()  # type: ignore[assignment]
        self._bursts = self.bursts = Probe()  # type: ignore[assignment]
        self._budget = self.purse = Purse()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[StepForecast]:
    """The forecast in force: the last one of the list."""
    forecasts = [forecast(100.0, 110.0, 120.0)]
    monkeypatch.setattr(goodput, "make_forecast", lambda *_, **__: forecasts[-1])
    return forecasts


@pytest.mark.parametrize(("maximum", "lengths"), [(8, [4, 1, 0]), (2, [2, 1, 0]), (1, [1, 0])])
def test_the_first_steps_teach_the_cost(maximum: int, lengths: list[int]) -> None:
    """Each of 4, 1 and 0 until two steps took the same time."""
    policy = GoodputPolicy(maximum)
    planned = []
    for length in lengths:
        for _ in range(3):
            plan = policy.plan(LOAD)
            assert plan.is_exploring
            planned.append(plan.draft_length)
        for _ in range(2):
            policy.observe(ordinary_sample(draft_length=length, requested_draft_length=length))
    assert planned == [length for length in lengths for _ in range(3)]
    assert not policy.plan(LOAD).is_exploring


def test_without_a_clean_step_the_prior_decides_in_the_end() -> None:
    policy = GoodputPolicy(8)
    plans = [policy.plan(LOAD) for _ in range(22)]
    assert [plan.is_exploring for plan in plans] == [True] * 21 + [False]
    after = plans[-1]
    assert (after.draft_length, after.reason) == (2, "prior: no clean step yet")


def test_the_profile_keeps_to_the_ceiling_and_waits_for_requests() -> None:
    policy = GoodputPolicy(8)
    empty = policy.plan(replace(LOAD, num_requests=0))
    assert (empty.draft_length, empty.reason) == (2, "no requests or no drafting allowed")
    assert policy.plan(replace(LOAD, max_draft_length=0)).draft_length == 0
    assert policy.plan(replace(LOAD, max_draft_length=3)).draft_length == 3
    assert policy.plan(LOAD).draft_length == 4


@pytest.mark.parametrize("arguments", [(0, math.inf), (-1, math.inf), (8, 0.0), (8, math.nan)])
def test_impossible_arguments_are_refused(arguments: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        GoodputPolicy(arguments[0], max_step_s=arguments[1])


@pytest.mark.parametrize(
    ("values", "length", "chosen"),
    [
        ((100.0, 110.0, 120.0), 0, 2),
        ((100.0, 110.0, 120.0), 1, 2),
        ((120.0, 110.0, 100.0), 2, 0),
        ((100.0, 120.0, 110.0), 2, 1),
        ((100.0, 100.9, 100.0), 2, 2),  # 0.9 % is less than the error of the cost
        ((100.0, 101.1, 100.0), 2, 1),
        ((100.0, 100.9), 0, 0),
        ((100.0, 101.1), 0, 1),
        ((100.0, 100.0), 1, 1),
        ((100.0, 90.0), 7, 0),  # the length in force is no longer allowed
        ((100.0, 100.9), 7, 1),
    ],
)
def test_a_better_length_is_chosen_if_it_is_clearly_better(
    now: list[StepForecast], values: tuple[float, ...], length: int, chosen: int
) -> None:
    """With an exact estimate of acceptance, by more than 1 %."""
    now.append(forecast(*values))
    policy = Goodput(length)
    plan = policy.plan(LOAD)
    assert plan.draft_length == chosen
    assert policy.plan(LOAD).draft_length == chosen
    assert plan.expected_tokens_per_s == pytest.approx(values[chosen])
    assert plan.reason == f"goodput: {values[chosen]:.0f} tokens/s expected, best of 0-8"
    assert policy.purse.earned == [STEP_S] * 2


@pytest.mark.parametrize(
    ("error", "length", "gain", "switches"),
    [
        (0.012, 2, 1.0150, False),  # sqrt(0.012² + 0.01²) = 0.0156
        (0.012, 2, 1.0162, True),
        (0.5, 2, 1.0360, False),  # the logarithm of the gain must exceed 0.036 at most
        (0.5, 2, 1.0375, True),
        (0.5, 0, 1.0150, False),
        (0.5, 0, 1.0400, True),
    ],
)
def test_the_gain_must_exceed_one_standard_error(
    now: list[StepForecast], error: float, length: int, gain: float, switches: bool
) -> None:
    now.append(forecast(100.0, 100.0 * gain, 100.0))
    policy = Goodput(length)
    policy.acceptance.error = error
    assert (policy.plan(LOAD).draft_length == 1) is switches


def test_leaving_length_0_must_pay_for_catching_up(now: list[StepForecast]) -> None:
    """A gain of 10 % less 1 %, of 20 ms, over 100 steps, is 171 ms for 1,000 tokens of context."""
    now.append(forecast(100.0, 110.0))
    for token_s, length in ((0.165e-3, 1), (0.178e-3, 0)):
        policy = Goodput(0)
        policy.bursts.catch_up.token_s = token_s
        assert policy.plan(LOAD).draft_length == length
        policy = Goodput(1)
        policy.bursts.catch_up.token_s = token_s
        assert policy.plan(LOAD).draft_length == 1  # staying needs no catching up


def test_what_was_forgone_at_length_0_pays_for_catching_up_in_the_end(
    now: list[StepForecast],
) -> None:
    """Twice what 100 steps gain is forgone after 200 steps; a step in which 0 is best resets it."""
    better, best = forecast(100.0, 110.0), forecast(110.0, 100.0)
    policy = Goodput(0)
    policy.bursts.catch_up.token_s = 2 * 0.1706e-3
    now.append(better)
    assert [policy.plan(LOAD).draft_length for _ in range(195)] == [0] * 195
    now.append(best)
    assert policy.plan(LOAD).draft_length == 0
    now.append(better)
    lengths = [policy.plan(LOAD).draft_length for _ in range(206)]
    assert lengths[:195] == [0] * 195
    assert lengths[-1] == 1


def test_an_objective_leaves_out_longer_steps(now: list[StepForecast]) -> None:
    """30 ms are more than 25; nothing is left to explore where only 0 remains."""
    now.append(StepForecast([2.0, 2.4, 3.6], [0.020, 0.022, 0.030], [100.0, 109.0, 120.0]))
    assert Goodput(1, max_step_s=0.025).plan(LOAD).draft_length == 1
    policy = Goodput(1, max_step_s=0.021)
    assert policy.plan(LOAD).draft_length == 0
    assert policy.adjacent.asked == policy.bursts.asked == []


def test_going_off_is_announced_once(now: list[StepForecast]) -> None:
    now.append(forecast(120.0, 100.0))
    policy = Goodput(1)
    for _ in range(3):
        policy.plan(LOAD)
    assert policy.bursts.times_off == 1


@pytest.mark.parametrize(
    ("best", "adjacent", "bursts"),
    [(1, [(1,)], []), (0, [], [()])],
)
def test_how_it_explores(
    now: list[StepForecast],
    best: int,
    adjacent: list[tuple[int, ...]],
    bursts: list[tuple[int, ...]],
) -> None:
    """While drafting an adjacent length; while off bursts."""
    now.append(forecast(100.0, 120.0) if best else forecast(120.0, 100.0))
    policy = Goodput(best)
    policy.plan(LOAD)
    assert (policy.adjacent.asked, policy.bursts.asked) == (adjacent, bursts)


def test_a_probe_is_planned_instead(now: list[StepForecast]) -> None:
    policy = Goodput(2)
    policy.adjacent.answer = DraftPlan(3, "a probe", is_exploring=True)
    assert policy.plan(LOAD) == policy.adjacent.answer


def test_a_change_of_load_grants_steps_at_the_length_in_force(now: list[StepForecast]) -> None:
    """2, 1.4 and 0.98 steps of 30 ms while the length stays 1; bursts and trials are then due."""
    now.append(StepForecast([4.0, 7.2, 7.6], [0.020, 0.030, 0.040], [200.0, 240.0, 190.0]))
    policy = Goodput(1)
    trial = Probe()
    policy._undrafted_trial = trial  # type: ignore[assignment]
    for num_granted, num_requests in enumerate((4, 16, 4, 16)):
        for _ in range(48):
            assert policy.plan(replace(LOAD, num_requests=num_requests)).draft_length == 1
        steps = [2.0, 1.4, 0.98][:num_granted]
        assert policy.purse.granted == [(pytest.approx(num), 0.030) for num in steps]
        assert policy.bursts.times_hastened == trial.times_hastened == num_granted


def test_the_first_plan_at_length_0_has_forgone_nothing(now: list[StepForecast]) -> None:
    """A gain of 1.706 ms per step pays for 178 ms after 105 steps."""
    now.append(forecast(100.0, 110.0))
    policy = Goodput(0)
    policy.bursts.catch_up.token_s = 0.178e-3
    assert [policy.plan(LOAD).draft_length for _ in range(105)] == [0] * 104 + [1]


class PrefersShort(Goodput):
    """Has another objective: the value of a length is what is left of ten tokens."""

    def _weigh(self, load: EngineLoad, forecast: StepForecast) -> StepForecast:
        assert load == LOAD
        return replace(forecast, values=[10.0 - tokens for tokens in forecast.tokens])


def test_a_policy_derived_from_it_weighs_the_forecast(now: list[StepForecast]) -> None:
    """The rate in the plan is still that of the tokens."""
    plan = PrefersShort(2).plan(LOAD)
    assert plan.draft_length == 0
    assert plan.expected_tokens_per_s == pytest.approx(100.0)
    assert Goodput(2).plan(LOAD).draft_length == 2


@dataclass
class Learner:
    """Keeps the samples that it is given."""

    seen: list[StepSample] = field(default_factory=list)
    is_finished: bool = True
    """As the first profile, whose end is that of the first costs."""

    def observe(self, sample: StepSample) -> None:
        self.seen.append(sample)


def test_every_part_learns_from_each_sample() -> None:
    policy = GoodputPolicy(8)
    parts = (
        "acceptance",
        "cost",
        "answers",
        "adjacent_probe",
        "undrafted_trial",
        "bursts",
        "profile",
    )
    learners = {part: Learner() for part in parts}
    for part, learner in learners.items():
        setattr(policy, f"_{part}", learner)
    policy.observe(ordinary_sample())  # the first of its size says nothing about the cost
    assert learners.pop("cost").seen == [ordinary_sample(is_clean=False)]
    learners["cost"] = Learner()
    for part, learner in learners.items():
        learner.seen.clear()
        setattr(policy, f"_{part}", learner)
    samples = [ordinary_sample(), ordinary_sample(is_clean=False)]
    for sample in samples:
        policy.observe(sample)
    assert {part: learner.seen for part, learner in learners.items()} == dict.fromkeys(
        parts, samples
    )
