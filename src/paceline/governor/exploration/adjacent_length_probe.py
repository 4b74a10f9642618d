"""Single steps at a draft length next to the one in force, while drafting.

A step at k+1 is probed if that length would win with its acceptance one standard error higher. A
step at k+1 or k-1 is also probed where no step of that length was measured at this load. A probe
pays `StepForecast.price_s` from the exploration budget; its measured price replaces the forecast
afterwards (`settlement`).
Where not every length is allowed, the next longer and the next shorter one take the places of k+1
and k-1.
"""

from __future__ import annotations

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.exploration.settlement import Settlement
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

_PAUSE = 24
"""Least steps between two probes. Chosen empirically on the simulator."""


class AdjacentLengthProbe:
    """Probes one token above or below the length in force."""

    def __init__(
        self, acceptance: AcceptanceModel, cost: CostModel, budget: ExplorationBudget
    ) -> None:
        self._acceptance = acceptance
        self._cost = cost
        self._budget = budget
        self._settlement = Settlement(budget)
        self._steps_since = 0

    def observe(self, sample: StepSample) -> None:
        """Settle the last probe with the time that its steps took."""
        self._settlement.observe(sample)

    def probe(self, load: EngineLoad, forecast: StepForecast, now: int) -> DraftPlan | None:
        """One step at an adjacent length where it is due and paid for; else None."""
        self._steps_since += 1
        if self._steps_since < _PAUSE:
            return None
        values = forecast.values
        allowed = load.allowed_below(len(values))
        place = allowed.index(now)
        for length in (*allowed[place + 1 : place + 2], *allowed[max(place - 1, 0) : place]):
            unmeasured = not self._cost.is_measured(load.num_requests, length)
            if not unmeasured and (length < now or not self._may_win(length, now, values)):
                continue
            price_s = forecast.price_s(length, now)
            if self._budget.covers(price_s, forecast.seconds[now]):
                self._settlement.pay(
                    price_s,
                    length=length,
                    token_s=forecast.seconds[now] / forecast.tokens[now],
                )
                self._steps_since = 0
                reason = f"probe: one step at {length} instead of {now}"
                return DraftPlan(length, reason, is_exploring=True)
        return None

    def _may_win(self, length: int, now: int, values: list[float]) -> bool:
        """Whether a longer draft would win if its last position were accepted more often."""
        survival = self._acceptance.survival
        tokens = 1.0 + sum(survival[:length])
        gained = self._acceptance.optimistic_survival(length) - survival[length - 1]
        return values[length] * (1.0 + gained / tokens) > values[now]
