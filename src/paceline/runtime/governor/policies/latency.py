"""A policy that keeps the slowest answers fast.

It minimises the P99, over answers, of the time per output token after the first. With X the tokens
that a step yields to a request, a length k gives

    mean(k)     = E[X] = 1 + S_1 + … + S_k,      S_j: chance that j draft tokens are accepted
    variance(k) = Var[X] = S_1 + 3 S_2 + … + (2k - 1) S_k - (S_1 + … + S_k)²
    slowest(k)  = mean(k) - 2.33 sqrt(share * variance(k)), at least 1     (share: see `dispersion`)
    objective   = seconds(k) / slowest(k)

A fraction `share` of the variance is a lasting difference between requests, assumed normal (2.33 is
the distance of its 1st percentile) and equal at every length; the rest averages out over an answer.
Without a draft accepted, a request still gets one token per step. Where all requests are alike, the
objective equals goodput's; where some are hard, their rate decides. With one request at a time the
share is unknown and taken as 0. While requests wait for a slot the objective is goodput: a wait
weighs more than any draft length.

The objective is not the P99 over all gaps between two tokens, which are 0 inside a chunk: that is
nearly always lowest at length 0, since a step takes longer the more it drafts, and one gap in 100
is a whole step at any length (measured: docs/experiments/latency-policy.md). `max_step_s` bounds
it, as in `goodput`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.governor.acceptance.dispersion import Dispersion
from paceline.runtime.governor.forecast import StepForecast
from paceline.runtime.governor.policies.goodput import GoodputPolicy
from paceline.runtime.governor.policy_definition import PolicyDefinition
from paceline.runtime.governor.values import EngineLoad, StepSample

_NORMAL_99 = 2.326


class LatencyPolicy(GoodputPolicy):
    """Minimises the expected time per output token of the slowest answers."""

    chooses_widths = False  # one length for all: the slowest answers decide, not the next step

    def __init__(
        self,
        max_draft_length: int,
        *,
        max_step_s: float = math.inf,
        cost_table: CostTable | None = None,
    ) -> None:
        super().__init__(max_draft_length, max_step_s=max_step_s, cost_table=cost_table)
        self._dispersion = Dispersion()

    def observe(self, sample: StepSample) -> None:
        super().observe(sample)
        self._dispersion.observe(sample)

    def _weigh(self, load: EngineLoad, forecast: StepForecast) -> StepForecast:
        if load.num_waiting > 0:
            return forecast
        return weigh_slowest(forecast, self._dispersion.share)


def weigh_slowest(forecast: StepForecast, lasting_share: float) -> StepForecast:
    """The forecast with new values: the rate of the slowest answers, times the number of requests.

    >>> even = StepForecast([1.0, 1.5], [4.0, 6.0], [0.02, 0.03], [200.0, 200.0])  # half accepted
    >>> weigh_slowest(even, lasting_share=0.0).values  # all requests alike
    [200.0, 200.0]
    >>> [round(value) for value in weigh_slowest(even, lasting_share=0.04).values]
    [200, 169]
    >>> [round(value) for value in weigh_slowest(even, lasting_share=1.0).values]  # half are hard
    [200, 133]
    """
    squares = 0.0
    values = [forecast.values[0]]
    for length, (before, mean) in enumerate(pairwise(forecast.yields), start=1):
        squares += (2 * length - 1) * (mean - before)
        variance = max(squares - (mean - 1.0) ** 2, 0.0)
        slowest = mean - _NORMAL_99 * math.sqrt(lasting_share * variance)
        values.append(forecast.values[length] * max(slowest, 1.0) / mean)
    return replace(forecast, values=values)


POLICY = PolicyDefinition(
    name="latency",
    summary="The length at which the slowest answers are fastest, by measured acceptance and cost.",
    create=LatencyPolicy,
    takes_max_step_s=True,
    takes_cost_table=True,
)
