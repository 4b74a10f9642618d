"""What drafts gain: the factor on throughput, and the best draft length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.operations.doctor.estimates.draft_cost import Slowdown
from paceline.operations.doctor.estimates.drafting import Drafting
from paceline.operations.doctor.estimates.interval import Interval

_LONGEST = 16


def gain_of(drafting: Drafting, slowdown: Slowdown) -> Interval:
    """Tokens/s with drafts over those without: tokens per step / slowdown.

    The error of the accepted tokens is included.
    """
    low = 1 + max(0.0, drafting.accepted_per_draft - drafting.accepted_error)
    high = 1 + drafting.accepted_per_draft + drafting.accepted_error
    return Interval(low / slowdown.factor.high, high / slowdown.factor.low)


@dataclass(frozen=True, slots=True)
class BestLength:
    """The draft lengths that give the most tokens/s, over the interval of the cost."""

    shortest: int
    """If a draft token costs the most that the interval allows."""
    longest: int
    """If it costs the least."""
    factor: Interval
    """Tokens/s at the best length over those at the present one, over the same interval."""


def best_length(drafting: Drafting, slowdown: Slowdown) -> BestLength:
    """The best lengths. Lengths above the present one continue its last hazard, up to 16."""
    present = len(drafting.reached)
    reached = _continued(drafting.reached)
    ends = [
        _best(reached, present, share)
        for share in (slowdown.token_share.high, slowdown.token_share.low)
    ]
    (shortest, one), (longest, other) = ends
    return BestLength(shortest, longest, Interval(min(one, other), max(one, other)))


def _best(reached: Sequence[float], present: int, token_share: float) -> tuple[int, float]:
    """The best length and its tokens/s over those of the present one.

    >>> _best((0.8, 0.64, 0.0), 3, 0.2)[0]
    2
    """
    rates = [
        (1 + math.fsum(reached[:length])) / (1 + token_share * length)
        for length in range(len(reached) + 1)
    ]
    best = max(range(len(rates)), key=rates.__getitem__)
    return best, rates[best] / rates[present]


def _continued(reached: Sequence[float]) -> tuple[float, ...]:
    before = reached[-2] if len(reached) > 1 else 1.0
    hazard = min(1.0, reached[-1] / before) if before > 0 else 0.0
    values = list(reached)
    while len(values) < max(_LONGEST, len(reached)):
        values.append(values[-1] * hazard)
    return tuple(values)
