"""The expected tokens and seconds of the next step at each draft length.

For n requests, d of them decoding, with context c, and every length k from 0 to the ceiling,

    tokens(k)  = d * (1 + survival_1 + … + survival_k)            (see `acceptance`)
    seconds(k) = cost(n, d * (offered_1 + … + offered_k), c, k, chance of any offer)   (see `cost`)
    value(k)   = tokens(k) / seconds(k) / (1 + overshoot(k) / answer)
    overshoot  = E[X²] / (2 E[X]) - 1/2,   X: tokens that a step yields to a request

The last factor is for the drafts that reach beyond the end of an answer (see `answer_length`).

A request that is still prefilling yields no token and has no drafts, but it is part of every pass.

Where prompts come along with decodes, they come in proportion to the tokens that a length yields:
they are not a fixed cost, which longer drafts would spread over more tokens. What matters to the
choice is that prompts fill the step, so that draft tokens cease to be free at shorter lengths, and
that a length that yields more leaves fewer of the n requests decoding at a time, d(k) of them:

    1 / value(k) = seconds(k) / tokens'(k) + prompts(k) - least prompts of any length
    tokens'(k)   = tokens(k) * d(k) / d                           (see `prefill_mix`)

with prompts(k) the seconds that prompt tokens add to a step, per token that it yields. What they
add at any length is left out, as no length can change it: a value is a rate of decoding.

Assumes steady state: the length drafted now is verified next, with as many requests. Where requests
differ, slow ones count more in the survival (see `request_weights`), and tokens(k) is a little low.
First tokens of prompts are left out, as they are in proportion to the others.
Reference: goodput as objective, TurboSpec (arXiv 2406.14066).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from operator import truediv

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import EngineLoad

_LEAST_PRICE_STEPS = 0.02


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Tokens and seconds of a step without prompt tokens, and the value of each length 0…ceiling;
    shape (ceiling + 1,) each."""

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
        Assumes that a step's time grows with the length. Prompt tokens beside the decodes are left
        out: `prefill_pacing` gives them what time is left."""
        count = 1
        while count < len(self.seconds) and self.seconds[count] <= max_step_s:
            count += 1
        if count == len(self.seconds):
            return self
        return StepForecast(self.tokens[:count], self.seconds[:count], self.values[:count])


def make_forecast(
    load: EngineLoad,
    acceptance: AcceptanceModel,
    cost: CostModel,
    *,
    answer_tokens: float = math.inf,
) -> StepForecast:
    """The forecast for a load with requests; needs a cost model that is ready. `answer_tokens` is
    the mean length of an answer."""
    num_requests = load.num_requests
    num_decoding = max(load.num_decoding, 1)  # where all are prefilling: as if one decoded
    num_lengths = min(load.max_draft_length, len(acceptance.survival))
    yields = list(accumulate(acceptance.survival[:num_lengths], initial=1.0))
    tokens = [num_decoding * num for num in yields]
    drafts = [
        num_decoding * num for num in accumulate(acceptance.offered[:num_lengths], initial=0.0)
    ]
    has_prompts = cost.prefills.fraction > 0.0
    if has_prompts:
        stretch = list(map(cost.prefills.stretch, yields))
        drafts = list(map(truediv, drafts, stretch))
    seconds = cost.predict_lengths_s(
        num_requests,
        drafts,
        load.context_tokens,
        verifying_fraction=1.0 - (1.0 - acceptance.offered[0]) ** num_decoding,
    )
    if has_prompts:
        outputs = list(map(truediv, tokens, stretch))
        prompts_s = cost.predict_prompts_s(num_requests, drafts, outputs)
        least_s = min(prompts_s)
        values = [
            num / (length_s + num * (prompt_s - least_s))
            for num, length_s, prompt_s in zip(outputs, seconds, prompts_s, strict=True)
        ]
    else:
        values = list(map(truediv, tokens, seconds))
    if answer_tokens < math.inf:
        values = list(map(truediv, values, _steps_by_overshoot(acceptance, yields, answer_tokens)))
    return StepForecast(tokens, seconds, values)


def _steps_by_overshoot(
    acceptance: AcceptanceModel, yields: list[float], answer_tokens: float
) -> list[float]:
    """Steps of an answer at each length, over the steps it would take without a last one that is
    cut short, shape (num_lengths,)."""
    survival = acceptance.survival[: len(yields) - 1]
    # E[X²] = 1 + sum of (2j + 1) P(at least j accepted)
    squares = accumulate(((2 * j + 1) * s for j, s in enumerate(survival, 1)), initial=1.0)
    return [
        1.0 + (square / (2.0 * mean) - 0.5) / answer_tokens
        for square, mean in zip(squares, yields, strict=True)
    ]
