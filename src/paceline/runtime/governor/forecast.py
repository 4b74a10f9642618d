"""The expected tokens and seconds of the next step at each draft length.

For n requests, d of them decoding and a fraction f of these with drafts, context c, and every
length k from 0 to the ceiling,

    yield(k)   = 1 + f * (survival_1 + … + survival_k)               (see `acceptance`)
    tokens(k)  = d(k) * yield(k)
    verified(k) = d(k) * f * (offered_1 + … + offered_k)
    seconds(k) = cost(n, verified(k), k, c)                          (see `costs`)

The length that yields more tokens also has more pieces of prompts in a step, and fewer of the
requests decoding at a time, d(k) of them (`costs.prompt_share`).
The target computes prompt tokens like draft tokens, so a piece of p tokens adds the cost of p more
verified ones, and

    value(k) = tokens(k) / (seconds(k) + pieces(k) * (what a piece adds at k - at the best length))

with pieces(k) the pieces in a step, in proportion to its tokens. What a piece adds at any length is
left out, as no length can change it: a value is a rate of decoding. A request that is still
prefilling yields no token and has no drafts, but it is part of every pass.

Assumes steady state: the length drafted now is verified next, with as many requests.
Reference: goodput as objective, TurboSpec (arXiv 2406.14066).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from operator import mul, sub, truediv

from paceline.foundation.capacity.cost_table import LoadCosts
from paceline.runtime.governor.acceptance.acceptance_by_class import AcceptanceByClass
from paceline.runtime.governor.costs.prompt_share import PromptShare
from paceline.runtime.governor.values import EngineLoad


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Tokens and seconds of a step, and the value of each length 0…ceiling; shape (ceiling + 1,)
    each."""

    yields: list[float]
    """Tokens of a decoding request, in the mean."""
    tokens: list[float]
    seconds: list[float]
    values: list[float]
    """The objective to maximise: tokens per second, or another policy's weighting of them."""

    def within(self, max_step_s: float) -> StepForecast:
        """Lengths from 0 to the longest whose step takes at most `max_step_s`; only 0 if none does.
        Assumes that a step's time grows with the length."""
        count = 1
        while count < len(self.seconds) and self.seconds[count] <= max_step_s:
            count += 1
        if count == len(self.seconds):
            return self
        return StepForecast(
            self.yields[:count], self.tokens[:count], self.seconds[:count], self.values[:count]
        )

    def best(self, lengths: Sequence[int]) -> int:
        """The length of `lengths` with the highest value."""
        return max(lengths, key=self.values.__getitem__)


def make_forecast(
    load: EngineLoad, acceptance: AcceptanceByClass, costs: LoadCosts, prompts: PromptShare
) -> StepForecast:
    """The forecast for a load with requests that decode."""
    ceiling = load.max_draft_length
    drafting = load.num_drafting / load.num_decoding
    survival, offered = acceptance.survival(load.classes), acceptance.offered(load.classes)
    yields = list(accumulate((drafting * s for s in survival[:ceiling]), initial=1.0))
    drafts = accumulate((drafting * s for s in offered[:ceiling]), initial=0.0)
    decoding = [load.num_decoding / prompts.stretch(num) for num in yields]
    tokens = list(map(mul, decoding, yields))
    verified = list(map(mul, decoding, drafts))
    seconds = list(map(costs.step_s, verified, count()))
    if not prompts.piece_tokens:
        return StepForecast(yields, tokens, seconds, list(map(truediv, tokens, seconds)))
    with_piece = (num + prompts.piece_tokens for num in verified)
    added_s = list(map(sub, map(costs.step_s, with_piece, count()), seconds))
    least_s, pieces = min(added_s), prompts.pieces_per_output
    values = [
        num / (length_s + min(pieces * num, 1.0) * (piece_s - least_s))
        for num, length_s, piece_s in zip(tokens, seconds, added_s, strict=True)
    ]
    return StepForecast(yields, tokens, seconds, values)
