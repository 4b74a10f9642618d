"""Decide whether a 99th percentile or a fraction keeps a limit, by exact binomial tests. Pure."""

from __future__ import annotations

import math
from enum import StrEnum

_TAIL = 0.01
_MAX_FALSE_FAILURE = 0.001
"""Probability that a deployment that is exactly at the limit is failed."""


_TOKENS_PER_TRIAL = 4
"""Draft tokens that count as one trial. Chosen: the first token of a draft that is rejected rejects
the rest of it."""


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


def is_significantly_below(fraction: float, num: float, floor: float) -> bool:
    """Whether a fraction of `num` draft tokens is below the floor by more than chance explains.

    `floor` is above 0.

    >>> is_significantly_below(0.45, 300, 0.5), is_significantly_below(0.3, 300, 0.5)
    (False, True)
    """
    independent = int(num / _TOKENS_PER_TRIAL)
    if floor >= 1:
        return fraction < floor
    num_missed = int((1 - fraction) * independent)
    return binomial_tail(num_missed, independent, 1 - floor) < _MAX_FALSE_FAILURE


def binomial_tail(at_least: int, num: int, probability: float) -> float:
    """P(X >= at_least) for X ~ B(num, probability), with 0 < probability < 1.

    >>> round(binomial_tail(1, 2, 0.5), 3)
    0.75
    """
    if at_least <= 0:
        return 1.0
    yes, no = math.log(probability), math.log1p(-probability)
    logs = [
        math.lgamma(num + 1) - math.lgamma(k + 1) - math.lgamma(num - k + 1) + k * yes
        + (num - k) * no
        for k in range(at_least, num + 1)
    ]  # fmt: skip
    return min(1.0, math.fsum(map(math.exp, logs)))
