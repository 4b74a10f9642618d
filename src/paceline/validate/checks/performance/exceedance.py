"""Decide whether a 99th percentile keeps a limit, from how many requests exceeded it. Pure."""

from __future__ import annotations

import math
from enum import StrEnum

_TAIL = 0.01
_MAX_FALSE_FAILURE = 0.001
"""Probability that a deployment whose percentile is exactly at the limit is failed."""


class Exceedance(StrEnum):
    KEPT = "kept"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"


def judge_exceedance(num_above: int, num: int) -> Exceedance:
    """At most 1 % above the limit keeps it; significantly more exceeds it (exact binomial test).

    >>> judge_exceedance(1, 100), judge_exceedance(2, 100), judge_exceedance(8, 100)
    (<Exceedance.KEPT: 'kept'>, <Exceedance.UNDECIDED: 'undecided'>, \
<Exceedance.EXCEEDED: 'exceeded'>)
    """
    if num_above <= _TAIL * num:
        return Exceedance.KEPT
    if binomial_tail(num_above, num, _TAIL) < _MAX_FALSE_FAILURE:
        return Exceedance.EXCEEDED
    return Exceedance.UNDECIDED


def binomial_tail(at_least: int, num: int, probability: float) -> float:
    """P(X >= at_least) for X ~ B(num, probability).

    >>> round(binomial_tail(1, 2, 0.5), 3)
    0.75
    """
    below = math.fsum(
        math.comb(num, k) * probability**k * (1 - probability) ** (num - k) for k in range(at_least)
    )
    return max(0.0, 1 - below)
