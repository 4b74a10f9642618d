"""Two steps without drafts now and then while drafting, to measure what such steps take.

Every length is compared with length 0, which is seldom next to the one in force. Extrapolated from
steps with drafts, its cost was seen to be off by a quarter, and nothing corrected it: 32 requests
of hard text kept drafting two tokens where none would have been 24 % faster.

The first step of a trial still verifies the drafts of the step before, so the second one measures.
Trials are frequent until `_KNOWN` such steps of about this many requests were measured, and rare
afterwards. None is made where drafting is expected to win by far, and none of the rare ones while
the machine's speed changes. Each step pays
`StepForecast.price_s` from the exploration budget, settled at its measured price (`settlement`).
"""

from __future__ import annotations

from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.settlement import Settlement
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

# All chosen empirically on the simulator.
_NUM_STEPS = 2
_KNOWN = 3
_FIRST_PAUSE = 4
_PAUSE = 96
_FAR, _FIRST_FAR = 1.25, 1.5
"""Expected gain of drafting at which length 0 is out of the question; larger while it is not
known."""


class UndraftedTrial:
    """Tries length 0 while drafting."""

    def __init__(self, cost: CostModel, budget: ExplorationBudget) -> None:
        self._cost = cost
        self._budget = budget
        self._settlement = Settlement(budget)
        self._steps_since = 0
        self._num_left = 0  # steps of the trial under way

    def hasten(self) -> None:
        """Make the next trial as soon as the budget covers it."""
        self._steps_since = _PAUSE

    def observe(self, sample: StepSample) -> None:
        """Settle the last trial with the time that its steps took."""
        self._settlement.observe(sample)

    def probe(self, load: EngineLoad, forecast: StepForecast, now: int) -> DraftPlan | None:
        """A step at length 0 where it is due and paid for; else None. `now` is above 0."""
        self._steps_since += 1
        price_s = forecast.price_s(0, now)
        if self._num_left == 0:
            is_known = self._cost.num_undrafted(load.num_requests) >= _KNOWN
            if self._steps_since < (_PAUSE if is_known else _FIRST_PAUSE):
                return None
            if is_known and not self._cost.is_settled:
                return None
            values = forecast.values
            if values[now] > (_FAR if is_known else _FIRST_FAR) * values[0]:
                return None
            if not self._budget.covers(_NUM_STEPS * price_s, forecast.seconds[now]):
                return None
            self._num_left = _NUM_STEPS
        self._num_left -= 1
        self._steps_since = 0
        self._settlement.pay(
            price_s, length=0, token_s=forecast.seconds[now] / forecast.tokens[now]
        )
        return DraftPlan(0, f"trial: no drafts instead of {now}", is_exploring=True)
