"""The default policy: the draft length with the most expected tokens per second.

The best length by `step_forecast` is chosen, by comparing all of them. It replaces the length in
force when its gain exceeds one standard error of the gain, so that noise causes no flapping; the
error counts up to a bound, so that a length that was never drafted is tried. Leaving length 0
where the drafter rested also needs a gain over `_DWELL_STEPS` that exceeds the time that it takes
to catch up; or steps at length 0 whose forgone gain adds up to that time (as in the ski rental
problem: the loss against knowing the dwell is then bounded by a factor of two).

The first steps, at lengths 4, 1 and 0, teach the cost model its slopes (`first_profile`); the
longest length is not among them, since it is expensive with many requests. Afterwards the first
step of a size says nothing about its cost (`first_uses`), and exploration keeps the estimates of
unused lengths current, all of it paid from one `ExplorationBudget`: bursts while off, single steps
at an adjacent length (`adjacent_length_probe`), and steps without drafts (`undrafted_trial`). After
a change of load the budget is granted more, and the next exploration need not wait (`load_change`).

With an objective for the time between two chunks of an answer, lengths whose step would take longer
are left out, probes included: goodput under a constraint.

Where requests differ, tokens are weighted by how much they shorten the request's stay
(`request_weights`); one length is chosen for all requests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.answer_length import AnswerLength
from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.first_uses import FirstUses
from paceline.governor.estimates.step_forecast import StepForecast, make_forecast
from paceline.governor.exploration.adjacent_length_probe import AdjacentLengthProbe
from paceline.governor.exploration.bursts import Bursts
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.first_profile import FirstProfile
from paceline.governor.exploration.load_change import LoadChange
from paceline.governor.exploration.undrafted_trial import UndraftedTrial
from paceline.governor.policy_definition import PolicyDefinition
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

# All chosen empirically on the simulator.
_COST_ERROR = 0.01
"""Relative standard error of the ratio of two lengths' step times."""
_MAX_DOUBT = 0.036
_DWELL_STEPS = 100.0


class GoodputPolicy:
    """Maximises expected tokens per second. One instance per engine."""

    name = "goodput"
    uses_request_weights = True
    """Whether a verdict counts by its request's weight (`request_weights`)."""

    def __init__(self, max_draft_length: int, *, max_step_s: float = math.inf) -> None:
        """`max_step_s` is the objective for the time between two chunks of an answer."""
        if max_draft_length < 1:
            raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
        if not max_step_s > 0.0:
            raise ValueError(f"max_step_s is {max_step_s}; it must be positive")
        self._max_step_s = max_step_s
        self._acceptance = AcceptanceModel(
            max_draft_length, uses_request_weights=self.uses_request_weights
        )
        self._cost = CostModel()
        self._first_uses = FirstUses()
        self._answers = AnswerLength()
        self._budget = ExplorationBudget()
        self._adjacent_probe = AdjacentLengthProbe(self._acceptance, self._cost, self._budget)
        self._undrafted_trial = UndraftedTrial(self._cost, self._budget)
        self._bursts = Bursts(self._budget, self._cost)
        self._load_change = LoadChange()
        self._length = min(2, max_draft_length)
        self._forgone_s = 0.0  # by staying at length 0 since it was last the best
        self.step_seconds: Sequence[float] = ()
        """See `KnowsStepTime`."""
        self._profile = FirstProfile(sorted({0, 1, min(4, max_draft_length)}, reverse=True))

    def observe(self, sample: StepSample) -> None:
        """Learn acceptance from every step, cost from the clean ones."""
        self._acceptance.observe(sample)
        costed = self._first_uses.without_cost(sample)
        self._cost.observe(costed if self._profile.is_finished else sample)
        self._profile.observe(sample)
        self._answers.observe(sample)
        self._adjacent_probe.observe(sample)
        self._undrafted_trial.observe(sample)
        self._bursts.observe(sample)

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The best length, or a probe when one is due and the budget covers it."""
        ceiling = load.max_draft_length
        if load.num_requests == 0 or ceiling == 0:
            length = load.longest_allowed(self._length)
            return DraftPlan(length, "no requests or no drafting allowed")
        profiled = self._profile.next_length(load)
        if profiled is not None:
            return DraftPlan(profiled, "profile: learning the cost", is_exploring=True)
        if not self._cost.is_ready:
            return DraftPlan(load.longest_allowed(self._length), "prior: no clean step yet")
        forecast = make_forecast(
            load, self._acceptance, self._cost, answer_tokens=self._answers.tokens
        ).within(self._max_step_s)
        self.step_seconds = forecast.seconds
        forecast = self._weigh(load, forecast)
        self._length = self._choose(load, forecast)
        self._budget.earn(forecast.seconds[self._length])
        granted_steps = self._load_change.granted_steps(load.num_requests, self._length)
        if granted_steps:
            self._budget.grant(granted_steps, forecast.seconds[self._length])
            self._bursts.hasten()
            self._undrafted_trial.hasten()
        probe = self._explore(load, forecast)
        if probe is not None:
            return probe
        expected = forecast.tokens[self._length] / forecast.seconds[self._length]
        return DraftPlan(
            self._length,
            f"{self.name}: {expected:.0f} tokens/s expected, best of 0-{ceiling}",
            expected_tokens_per_s=expected,
        )

    def _weigh(self, load: EngineLoad, forecast: StepForecast) -> StepForecast:
        """The forecast whose values are the objective of this policy."""
        return forecast

    def _choose(self, load: EngineLoad, forecast: StepForecast) -> int:
        values = forecast.values
        best = max(load.allowed_below(len(values)), key=values.__getitem__)
        now = load.longest_allowed(min(self._length, len(values) - 1))
        gain = math.log(values[best] / values[now]) - self._doubt(best, now)
        is_better = gain > 0.0
        if now == 0 and is_better:
            is_better = self._pays_for_catching_up(load, gain * forecast.seconds[0])
        else:
            self._forgone_s = 0.0
        chosen = best if is_better else now
        if chosen == 0 and self._length != 0:
            self._bursts.switched_off()
        return chosen

    def _doubt(self, length: int, now: int) -> float:
        """One standard error of log(value at `length` / value at `now`), up to a bound."""
        if length == now:
            return 0.0
        error = math.hypot(self._acceptance.relative_error(length, now), _COST_ERROR)
        return min(error, _MAX_DOUBT)

    def _pays_for_catching_up(self, load: EngineLoad, gain_s: float) -> bool:
        """Whether a gain per step is worth the time that the drafter takes to catch up."""
        catch_up_s = self._bursts.catch_up.token_s * load.context_tokens
        self._forgone_s += gain_s
        return max(_DWELL_STEPS * gain_s, self._forgone_s) > catch_up_s

    def _explore(self, load: EngineLoad, forecast: StepForecast) -> DraftPlan | None:
        if len(forecast.values) == 1:
            return None  # no other length is allowed
        if self._length > 0:
            trial = self._undrafted_trial.probe(load, forecast, self._length)
            return trial or self._adjacent_probe.probe(load, forecast, self._length)
        return self._bursts.probe(load, forecast)


POLICY = PolicyDefinition(
    name="goodput",
    summary="The length with the most expected tokens per second, by measured acceptance and cost.",
    create=GoodputPolicy,
    takes_max_step_s=True,
)
