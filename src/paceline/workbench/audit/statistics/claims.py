"""The distribution that a token is sampled from, given the model's best log-probabilities.

Only the best log-probabilities are known (20 from most servers). The tokens that are not named
share one cell, `REST`. A claim that depends on a token that is not named, or that rounding decides,
is None; whether it is depends on the log-probabilities and the tokens before, never on the sampled
token, so leaving such positions out does not bias a test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from paceline.workbench.audit.values import Logprobs, SamplingCase, Token

REST: Token = "<rest>"
"""The cell of all tokens that a distribution does not name."""
_ROUNDING = 3e-5
"""float32 sums of probabilities err by about 1e-6; top-k and top-p limits this close are
uncertain."""
_MAX_REST_ERROR = 1e-3
"""Of a temperature other than 1: the largest share of the tokens that are not named, whose exact
weight is unknown."""


def claimed_probs(
    logprobs: Logprobs,
    case: SamplingCase,
    before: Sequence[Token],
    *,
    noise_nats: float = 0.0,
) -> dict[Token, float] | None:
    """Penalties and bias, temperature, top-k, then top-p: vLLM's order. The likeliest token first.

    `logprobs` are raw; `before` is the output so far; `noise_nats` is by how much two computations
    of the same log-probabilities differ. Probabilities add up to 1, `REST` included.
    """
    floor = min(logprobs.values())
    rest = max(0.0, 1.0 - sum(map(math.exp, logprobs.values())))
    adjusted = dict(logprobs)
    for token, bias in case.logit_bias:
        if token in adjusted:
            adjusted[token] += bias
        elif bias > 0:
            return None
    for token, count in Counter(before).items():
        if token in adjusted:
            adjusted[token] -= case.frequency_penalty * count + case.presence_penalty
        elif min(case.frequency_penalty, case.presence_penalty) < 0:
            return None
    ordered = sorted(adjusted.items(), key=lambda item: -item[1])
    margin = (_ROUNDING + 4 * noise_nats) * max(1.0, 1.0 / case.temperature)
    if case.top_k:
        if len(ordered) > case.top_k:
            if ordered[case.top_k - 1][1] - ordered[case.top_k][1] <= margin:
                return None
        elif rest > _ROUNDING:
            return None
        ordered = ordered[: case.top_k]
        if ordered[-1][1] < floor + margin and rest > _ROUNDING:
            return None
        rest = 0.0
    return _filtered(ordered, rest, floor, case, margin)


def _filtered(
    ordered: list[tuple[Token, float]],
    rest: float,
    floor: float,
    case: SamplingCase,
    margin: float,
) -> dict[Token, float] | None:
    """Temperature and top-p, for tokens in falling order."""
    inverse = 1.0 / case.temperature
    highest = ordered[0][1]
    weights = {token: math.exp((logit - highest) * inverse) for token, logit in ordered}
    rest_weight = 0.0
    if rest > 0.0:
        if inverse < 1.0 and rest > _ROUNDING:
            return None  # their weights have no bound
        # sum of p^(1/T) over the rest <= floor^(1/T - 1) * rest
        rest_weight = rest * math.exp(floor * (inverse - 1.0) - highest * inverse)
    total = sum(weights.values()) + rest_weight
    if case.temperature != 1.0 and rest_weight > _MAX_REST_ERROR * total:
        return None
    probs = {token: weight / total for token, weight in weights.items()}
    if case.top_p >= 1.0:
        return {**probs, REST: rest_weight / total}
    kept: dict[Token, float] = {}
    above = 0.0
    for token, prob in probs.items():
        if kept and abs(above - case.top_p) <= margin:
            return None
        if kept and above >= case.top_p:
            break
        kept[token] = prob
        above += prob
    else:
        if above < case.top_p and rest_weight > _ROUNDING * total:
            return None
    return {**{token: prob / above for token, prob in kept.items()}, REST: 0.0}
