"""Which draft length gives the most tokens per second, as far as can be told from what was seen.

The best length by `forecast` is taken: exact, there are only a few. It replaces the length in force
when it is better by more than `_SWITCH_GAIN`, so noise does not make it flap. Out of off by more
than `_SWITCH_ON_GAIN`, since off is the safe side of a tie, and when what it gains over
`_DWELL_STEPS` exceeds what the drafter has to catch up.

The first steps of all, a handful, at lengths 4, 1 and 0, teach the cost its slopes. Afterwards what
is not in use is kept known by exploring, each kind in a file of its own and all paid from one
`account`: `hindsight` where the engine can, whether drafting or not; else `bursts` while off,
unless the engine tells of first tokens for free; one step at a length beside the one in force by
`neighbours`.

With an objective for the time between two chunks of an answer, lengths whose step would take longer
are left out, probes included: goodput under a constraint.

Where requests differ, tokens are weighed by what they are worth to the pace of the batch (`pace`);
one length is taken for all of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast, make_forecast
from paceline.governor.exploration.adjacent_length_probe import AdjacentLengthProbe
from paceline.governor.exploration.bursts import Bursts
from paceline.governor.exploration.exploration_budget import FIRST_TOKEN_SHARE, ExplorationBudget
from paceline.governor.exploration.replay_scoring import ReplayScoringSchedule
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

# All chosen by hand on the simulator.
_SWITCH_GAIN = 0.01
_SWITCH_ON_GAIN = 0.03
_DWELL_STEPS = 100.0
_PROFILE_ROUNDS = 3


class GoodputPolicy:
    """Maximises expected tokens per second. One instance per engine."""

    name = "goodput"
    weighs_paces = True
    """Whether a verdict counts by its request's pace (`pace`)."""

    def __init__(self, max_draft_length: int, *, max_step_s: float = math.inf) -> None:
        """`max_step_s` is the objective for the time between two chunks of an answer."""
        if max_draft_length < 1:
            raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
        if not max_step_s > 0.0:
            raise ValueError(f"max_step_s is {max_step_s}; it must be positive")
        self._max_step_s = max_step_s
        self._acceptance = AcceptanceModel(max_draft_length, weighs_paces=self.weighs_paces)
        self._cost = CostModel()
        self._account = ExplorationBudget()
        self._neighbours = AdjacentLengthProbe(self._acceptance, self._cost, self._account)
        self._bursts = Bursts(self._account, self._cost)
        self._replay_scoring = ReplayScoringSchedule(self._account)
        self._length = min(2, max_draft_length)
        self._profile = _profile_lengths(max_draft_length)

    def observe(self, sample: StepSample) -> None:
        """Learn acceptance from every step, cost from the clean ones."""
        self._acceptance.observe(sample)
        self._cost.observe(sample)
        self._bursts.observe(sample)
        self._replay_scoring.observe(sample)

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The best length, or a probe when one is due and paid for."""
        ceiling = load.max_draft_length
        if load.num_requests == 0 or ceiling == 0:
            return DraftPlan(min(self._length, ceiling), "nothing to weigh")
        if self._profile:
            length = min(self._profile.pop(), ceiling)
            return DraftPlan(length, "profile: learning the cost", is_exploring=True)
        if not self._cost.is_ready:
            return DraftPlan(min(self._length, ceiling), "prior: no clean step yet")
        forecast = make_forecast(load, self._acceptance, self._cost).within(self._max_step_s)
        forecast = self._weigh(load, forecast)
        self._length = self._choose(load, forecast)
        self._account.earn(forecast.seconds[self._length])
        probe = self._explore(load, forecast)
        if probe is not None:
            return probe
        expected = forecast.tokens[self._length] / forecast.seconds[self._length]
        plan = DraftPlan(
            self._length,
            f"{self.name}: {expected:.0f} tokens/s expected, best of 0-{ceiling}",
            expected_tokens_per_s=expected,
        )
        if load.has_replay_scoring:
            tokens = self._replay_scoring.due(forecast.seconds[self._length])
            if tokens:
                return replace(plan, replay_scoring_tokens=tokens)
        if load.has_first_token_verdicts and self._length == 0:
            self._account.pay(FIRST_TOKEN_SHARE * forecast.seconds[0])
            return replace(plan, asks_first_tokens=True)
        return plan

    def _weigh(self, load: EngineLoad, forecast: StepForecast) -> StepForecast:
        """The forecast with what is to be maximised as its values."""
        return forecast

    def _choose(self, load: EngineLoad, forecast: StepForecast) -> int:
        values = forecast.values
        best = values.index(max(values))
        now = min(self._length, len(values) - 1)
        chosen = now
        needed = _SWITCH_GAIN if now > 0 else _SWITCH_ON_GAIN
        if values[best] > values[now] * (1.0 + needed):
            gain_s = (values[best] / values[now] - 1.0) * _DWELL_STEPS * forecast.seconds[now]
            if now > 0 or gain_s > self._replay_scoring.token_s * load.context_tokens:
                chosen = best
        if chosen == 0 and self._length != 0:
            self._bursts.switched_off()
        return chosen

    def _explore(self, load: EngineLoad, forecast: StepForecast) -> DraftPlan | None:
        if len(forecast.values) == 1:
            return None  # nothing else is allowed
        if self._length > 0:
            return self._neighbours.probe(load, forecast, self._length)
        if load.has_replay_scoring:
            return None
        if load.has_first_token_verdicts:
            # Acceptance is told for free, but not what a step takes that was never made.
            return self._neighbours.probe(load, forecast, 0)
        return self._bursts.probe(load, forecast)


def _profile_lengths(max_draft_length: int) -> list[int]:
    """Lengths to visit first, last one first. Not the ceiling: at many requests it is dear.

    Each in a row, since a step whose length differs from the one before may have to catch up, and
    the first use of anything is slow.
    """
    return sorted([*{0, 1, min(4, max_draft_length)}] * _PROFILE_ROUNDS)
