"""What a shift of acceptance costs: output tokens per second, by the governor's cost curve.

With n requests decoding, seconds(k) the time of a step at draft length k under the present load,
and h_j the acceptance at draft position j, tried positions only (deeper ones as the last of them):

    tokens(k) = 1 + h_1 + h_1 h_2 + … + h_1 … h_k          of one request and step
    rate(h)   = n * the most tokens(k) / seconds(k) over k
    lost      = share * (rate(h before) - rate(h now))

`share` is the category's share of the verdicts, which is that of the steps. The governor chooses
one length for all requests; the lengths used here are the best for the category alone. The interval
moves the acceptance of all positions by the same log odds, so that the mean acceptance of requests
before and now moves by 1.96 standard errors of their difference; the step times are taken as known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.runtime.engine.drift.category_watch import AcceptanceLevel, AcceptanceShift

_NORMAL_975 = 1.96
_LEAST_ODDS = 1e-3


@dataclass(frozen=True, slots=True)
class CostCurve:
    """The time of a step under the present load, by draft length."""

    num_decoding: int
    """Requests that draft."""
    seconds: Mapping[int, float]
    """At least one length; each above 0."""


@dataclass(frozen=True, slots=True)
class LostRate:
    """Output tokens per second that a shift costs; negative where it gains."""

    value: float
    low: float
    high: float
    """The ends of a 95 % interval."""
    tokens_before: float
    """Tokens per request and step at the length that was best."""
    tokens_now: float
    """The same, at the length that is best now."""


def lost_rate(shift: AcceptanceShift, curve: CostCurve, share: float) -> LostRate:
    """The cost of `shift` for a category with this `share` of the work, 0 to 1."""
    before_rate, tokens_before = _best(shift.before.hazards, curve)
    now_rate, tokens_now = _best(shift.now.hazards, curve)
    error = _NORMAL_975 * math.hypot(shift.before.standard_error, shift.now.standard_error)
    less, more = (_best(_moved(shift.now, by), curve)[0] for by in (-error, error))
    return LostRate(
        value=share * (before_rate - now_rate),
        low=share * (before_rate - max(more, now_rate)),
        high=share * (before_rate - min(less, now_rate)),
        tokens_before=tokens_before,
        tokens_now=tokens_now,
    )


def lost_fraction(
    shift: AcceptanceShift, seconds: Mapping[int, float], token_share: float
) -> float:
    """The fraction of all tokens/s that a fall of acceptance costs, 0 to 1.

    `seconds`: as in `CostCurve`. `token_share` is what the category has of the tokens after the
    fall, 0 to 1; without the fall it would have r times as many:

        lost = token_share (r - 1) / (1 + token_share (r - 1))
    """
    curve = CostCurve(1, seconds)
    before_rate, _ = _best(shift.before.hazards, curve)
    now_rate, _ = _best(shift.now.hazards, curve)
    more = token_share * max(0.0, before_rate / now_rate - 1.0)
    return more / (1.0 + more)


def tokens_per_step(hazards: Sequence[float], length: int) -> float:
    """Expected tokens of one request and step at draft length `length`.

    >>> tokens_per_step((0.8, 0.5), 0), tokens_per_step((0.8, 0.5), 2)
    (1.0, 2.2)
    >>> tokens_per_step((0.8, 0.5), 3)  # the third position as the second
    2.4000000000000004
    """
    tokens, survival = 1.0, 1.0
    for position in range(length):
        survival *= hazards[min(position, len(hazards) - 1)] if hazards else 0.0
        tokens += survival
    return tokens


def _best(hazards: Sequence[float], curve: CostCurve) -> tuple[float, float]:
    """(tokens/s, tokens per request and step) at the best length of the curve."""
    return max(
        (curve.num_decoding * tokens / seconds, tokens)
        for tokens, seconds in (
            (tokens_per_step(hazards, length), seconds) for length, seconds in curve.seconds.items()
        )
    )


def _moved(level: AcceptanceLevel, by: float) -> list[float]:
    """The hazards of a level whose mean is higher by `by`."""
    change = _log_odds(level.mean + by) - _log_odds(level.mean)
    return [1.0 / (1.0 + math.exp(-_log_odds(hazard) - change)) for hazard in level.hazards]


def _log_odds(probability: float) -> float:
    inside = min(max(probability, _LEAST_ODDS), 1.0 - _LEAST_ODDS)
    return math.log(inside / (1.0 - inside))
