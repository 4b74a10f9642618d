"""The expected tokens and seconds of the next step at each draft length.

For n requests with context c, and every length k from 0 to the ceiling,

    tokens(k)  = n * (1 + survival_1 + … + survival_k)            (see `acceptance`)
    seconds(k) = cost(n, n * (offered_1 + … + offered_k), c, k, chance of any offer)   (see `cost`)
    value(k)   = tokens(k) / seconds(k)

Assumes steady state: the length drafted now is verified next, with as many requests. Where requests
differ, slow ones count more in the survival (see `request_weights`), and tokens(k) is a little low.
Reference: goodput as objective, TurboSpec (arXiv 2406.14066).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from operator import truediv

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import EngineLoad

_LEAST_PRICE_STEPS = 0.02


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Tokens and seconds at each length 0…ceiling, shape (ceiling + 1,) each."""

    tokens: list[float]
    seconds: list[float]
    values: list[float]
    """The objective to maximise: tokens per second, or another policy's weighting of them."""

    def price_s(self, length: int, now: int) -> float:
        """Time wasted by one step at `length` instead of `now` if nothing is accepted beyond the
        yield of `now`: seconds(k) - seconds(now) * min(tokens(k), tokens(now)) / tokens(now)."""
        useful = min(self.tokens[length] / self.tokens[now], 1.0)
        least_s = _LEAST_PRICE_STEPS * self.seconds[now]
        return max(self.seconds[length] - self.seconds[now] * useful, least_s)

    def within(self, max_step_s: float) -> StepForecast:
        """Lengths from 0 to the longest whose step takes at most `max_step_s`; only 0 if none does.
        Assumes that a step's time grows with the length."""
        count = 1
        while count < len(self.seconds) and self.seconds[count] <= max_step_s:
            count += 1
        if count == len(self.seconds):
            return self
        return StepForecast(self.tokens[:count], self.seconds[:count], self.values[:count])


def make_forecast(load: EngineLoad, acceptance: AcceptanceModel, cost: CostModel) -> StepForecast:
    """The forecast for a load with requests; needs a cost model that is ready."""
    num_requests = load.num_requests
    num_lengths = min(load.max_draft_length, len(acceptance.survival))
    yields = list(accumulate(acceptance.survival[:num_lengths], initial=1.0))
    drafts = list(accumulate(acceptance.offered[:num_lengths], initial=0.0))
    seconds = cost.predict_lengths_s(
        num_requests,
        drafts,
        load.context_tokens,
        verifying_fraction=1.0 - (1.0 - acceptance.offered[0]) ** num_requests,
    )
    tokens = [num_requests * num for num in yields]
    return StepForecast(tokens, seconds, list(map(truediv, tokens, seconds)))
