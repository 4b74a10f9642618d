"""When is one step at a neighbouring draft length worth its price, while drafting?

Now and then one step at k+1, if it would win at one standard error of optimism about its
acceptance; or at k+1 or k-1, where a step of that length was never measured at this load. It pays
`StepForecast.price_s` from the account.
"""

from __future__ import annotations

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.values import DraftPlan, EngineLoad

_PAUSE = 24
"""Steps between two probes at least. Chosen by hand on the simulator."""


class AdjacentLengthProbe:
    """Probes beside the length in force."""

    def __init__(
        self, acceptance: AcceptanceModel, cost: CostModel, account: ExplorationBudget
    ) -> None:
        self._acceptance = acceptance
        self._cost = cost
        self._account = account
        self._steps_since = 0

    def probe(self, load: EngineLoad, forecast: StepForecast, now: int) -> DraftPlan | None:
        """One step at a neighbouring length, when it may teach something worth its price."""
        self._steps_since += 1
        if self._steps_since < _PAUSE:
            return None
        values = forecast.values
        for length in (now + 1, now - 1):
            if not 0 <= length < len(values):
                continue
            unmeasured = not self._cost.is_measured(load.num_requests, length)
            if not unmeasured and (length < now or not self._may_win(length, values)):
                continue
            price_s = forecast.price_s(length, now)
            if self._account.covers(price_s, forecast.seconds[now]):
                self._account.pay(price_s)
                self._steps_since = 0
                reason = f"probe: one step at {length} instead of {now}"
                return DraftPlan(length, reason, is_exploring=True)
        return None

    def _may_win(self, length: int, values: list[float]) -> bool:
        """Whether a longer draft would win if its last position were accepted more often."""
        survival = self._acceptance.survival
        tokens = 1.0 + sum(survival[:length])
        gained = self._acceptance.optimistic_survival(length) - survival[length - 1]
        return values[length] * (1.0 + gained / tokens) > values[length - 1]
