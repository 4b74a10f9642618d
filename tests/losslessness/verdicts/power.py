"""The smallest bias of the acceptance threshold that a number of verdicts finds.

The ratios recorded in a right engine are the experiment's design: each simulated run accepts every
draft with the probability of a biased sampler and computes the e-value after equal parts of the
verdicts. Only the pooled acceptance counts, with its half of the stake, so the real test, which
bets on positions and tokens too, finds at least as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from losslessness.verdicts.evidence import Floats, acceptance_bets

_STAKE = 0.5
_NUM_LOOKS = 20


def power(
    ratios: Sequence[float] | Floats,
    *,
    threshold_factor: float,
    found_above: float,
    num_runs: int = 200,
    seed: int = 0,
) -> float:
    """The share of simulated runs that exceed `found_above` at one of 20 looks.

    Needs 20 ratios at least.

    `threshold_factor`: the biased sampler accepts with probability min(1, ratio / factor).
    """
    design = np.asarray(ratios, dtype=np.float64)
    if_accepted, if_rejected = acceptance_bets(design)
    parts = [len(design) * part // _NUM_LOOKS for part in range(_NUM_LOOKS)]
    if_all_rejected = np.add.reduceat(if_rejected, parts, axis=1)
    gain = if_accepted - if_rejected
    accept_probs = np.minimum(design / threshold_factor, 1.0)
    draws = np.random.default_rng(seed)
    bound = math.log(found_above / _STAKE)
    num_found = 0
    for _ in range(num_runs):
        accepted = draws.random(len(design)) < accept_probs
        gained = np.add.reduceat(gain * accepted, parts, axis=1)
        sums = np.cumsum(if_all_rejected + gained, axis=1)
        top = sums.max(axis=0)
        log_e = top + np.log(np.exp(sums - top).mean(axis=0))
        num_found += bool(log_e.max() > bound)
    return num_found / num_runs


def smallest_bias_found(
    ratios: Sequence[float] | Floats,
    *,
    found_above: float,
    probability: float = 0.95,
    num_runs: int = 200,
) -> tuple[float, float]:
    """The smallest biases found with `probability`: thresholds too low, thresholds too high.

    To a relative precision of 3 %; infinite above 50 %.
    """
    return (
        _smallest(ratios, -1.0, found_above, probability, num_runs),
        _smallest(ratios, 1.0, found_above, probability, num_runs),
    )


def _smallest(
    ratios: Sequence[float] | Floats,
    direction: float,
    found_above: float,
    probability: float,
    num_runs: int,
) -> float:
    def is_found(bias: float) -> bool:
        factor = 1.0 + direction * bias
        found = power(ratios, threshold_factor=factor, found_above=found_above, num_runs=num_runs)
        return found >= probability

    low, high = 0.001, 0.5
    if not is_found(high):
        return math.inf
    while high / low > 1.03:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high
