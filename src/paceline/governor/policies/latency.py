"""Which draft length keeps the slowest answers fast, as far as can be told from what was seen?

Minimised is the P99, over answers, of the time per output token: from an answer's first token to
its last, per token after the first. With X the tokens a step yields to a request, a length k gives

    mean(k)     = E[X] = 1 + S_1 + … + S_k,      S_j: chance that j draft tokens are accepted
    variance(k) = Var[X] = S_1 + 3 S_2 + … + (2k - 1) S_k - (S_1 + … + S_k)²
    slowest(k)  = mean(k) - 2.33 sqrt(share * variance(k)), at least 1     (share: see `dispersion`)
    objective   = seconds(k) / slowest(k)

`share` of the variance is differences between requests that last; the rest is luck, which an
answer evens out over its steps. What lasts is taken for normal, and 2.33 is the distance of the
normal distribution's 1st percentile; a request gets a token a step whatever is rejected. Where all
requests are alike the objective is goodput's, of which each one's rate is the n-th part. Where some
are hard, their pace decides, and what the others would gain from drafting further is given up.

While requests wait for a place the objective is goodput: what they wait for is that others end, and
a wait weighs more than any draft length.

What it is not: the P99 over all gaps between two tokens, where those of one chunk have a gap of 0.
That is nearly always least at draft length 0, since a step takes the longer the more is drafted in
it, and one gap in 100 is a whole step at any length (measured: docs/experiments.md). To
bound that one, set an objective for it (`max_step_s`): it is a constraint here as in `goodput`.

Assumes that the share of what lasts is the same at every length. With one request at a time it is
not known, and taken for 0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from paceline.governor.estimates.dispersion import Dispersion
from paceline.governor.estimates.step_forecast import StepForecast
from paceline.governor.policies.goodput import GoodputPolicy
from paceline.governor.values import EngineLoad, StepSample

_NORMAL_99 = 2.326


class LatencyPolicy(GoodputPolicy):
    """Minimises the expected time per output token of the slowest answers."""

    name = "latency"
    weighs_paces = False  # that requests differ is in its own formula

    def __init__(self, max_draft_length: int, *, max_step_s: float = math.inf) -> None:
        super().__init__(max_draft_length, max_step_s=max_step_s)
        self._dispersion = Dispersion()

    def observe(self, sample: StepSample) -> None:
        super().observe(sample)
        self._dispersion.observe(sample)

    def _weigh(self, load: EngineLoad, forecast: StepForecast) -> StepForecast:
        if load.num_waiting > 0:
            return forecast
        return weigh_slowest(forecast, self._dispersion.share)


def weigh_slowest(forecast: StepForecast, lasting_share: float) -> StepForecast:
    """The same forecast, its values the rate of the slowest answers times the number of requests.

    >>> even = StepForecast([4.0, 6.0], [0.02, 0.03], [200.0, 200.0])  # accepted every other time
    >>> weigh_slowest(even, lasting_share=0.0).values  # by all alike
    [200.0, 200.0]
    >>> [round(value) for value in weigh_slowest(even, lasting_share=0.04).values]
    [200, 169]
    >>> [round(value) for value in weigh_slowest(even, lasting_share=1.0).values]  # by half of them
    [200, 133]
    """
    num_requests = forecast.tokens[0]  # at length 0 each gets one
    squares = 0.0
    values = [forecast.values[0]]
    for length, (before, tokens) in enumerate(pairwise(forecast.tokens), start=1):
        survival = (tokens - before) / num_requests
        squares += (2 * length - 1) * survival
        mean = tokens / num_requests
        variance = max(squares - (mean - 1.0) ** 2, 0.0)
        slowest = mean - _NORMAL_99 * math.sqrt(lasting_share * variance)
        values.append(num_requests * max(slowest, 1.0) / forecast.seconds[length])
    return replace(forecast, values=values)
