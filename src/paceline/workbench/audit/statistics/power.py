"""The smallest bias that the tokens of an audit would have shown.

A bias of b means that verification multiplies the odds of the likeliest token by 1 + b or divides
them by it. The recorded probabilities of the likeliest tokens are the design of the experiment. The
sum of the bets of one alternative on a biased endpoint is nearly normal; it is found if its lower 5
% quantile exceeds the threshold. Only the pooled bets on these odds count, with their share of the
stake, so the audit finds at least as much. Each bet pays the square of the noise, as in `evidence`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from paceline.workbench.audit.statistics.bets import NAMES, ODDS, Floats

_STAKE = 0.5
_QUANTILE = 1.645
"""Of the normal distribution: found with probability 0.95."""
_BIASES = (0.05, 0.07, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0)


def is_found(
    top_probs: Floats, *, factor: float, found_above: float, noise_nats: float = 0.0
) -> bool:
    """Whether a factor on the odds of the likeliest token is found with probability 0.95."""
    threshold = _threshold(found_above)
    moments = _moments(top_probs, factor, noise_nats)
    return any(mean - _QUANTILE * math.sqrt(variance) >= threshold for mean, variance in moments)


def growth_needed(
    top_probs: Sequence[float] | Floats, *, bias: float, found_above: float, noise_nats: float
) -> float | None:
    """How many times as many tokens like these find this bias in both directions.

    At most 1 if these do; None if no number of them does.
    """
    design = np.asarray(top_probs, dtype=np.float64)
    growths = []
    for factor in _factors(max((one for one in _BIASES if one <= bias), default=bias)):
        # growth * mean - quantile * sqrt(growth * variance) = threshold, solved for its root.
        threshold, roots = _threshold(found_above), []
        for mean, variance in _moments(design, factor, noise_nats):
            if mean > 0:
                half = _QUANTILE * math.sqrt(variance)
                roots.append((half + math.sqrt(half**2 + 4 * mean * threshold)) / (2 * mean))
        if not roots:
            return None
        growths.append(min(roots) ** 2)
    return max(growths)


def _threshold(found_above: float) -> float:
    """ln of the product of one alternative's bets that finds a bias on its own."""
    return math.log(found_above * len(NAMES) / _STAKE)


def smallest_bias(
    top_probs: Sequence[float] | Floats, *, found_above: float, noise_nats: float = 0.0
) -> float | None:
    """The smallest bias, of 0.05 to 2, found in both directions; None if none is."""
    design = np.asarray(top_probs, dtype=np.float64)
    for bias in _BIASES if len(design) else ():
        if all(
            is_found(design, factor=one, found_above=found_above, noise_nats=noise_nats)
            for one in _factors(bias)
        ):
            return bias
    return None


def _factors(bias: float) -> tuple[float, float]:
    return 1 + bias, 1 / (1 + bias)


def _moments(top_probs: Floats, factor: float, noise_nats: float) -> list[tuple[float, float]]:
    """Mean and variance of the sum of the bets of each of `ODDS`, if the true factor is this."""
    claimed = np.clip(top_probs, 1e-5, 1 - 1e-5)
    true = factor * claimed / (1 - claimed + factor * claimed)
    found = []
    for bet in ODDS:
        assumed = bet * claimed / (1 - claimed + bet * claimed)
        if_top, if_not = np.log(assumed / claimed), np.log((1 - assumed) / (1 - claimed))
        mean = float((true * if_top + (1 - true) * if_not).sum())
        variance = float((true * (1 - true) * (if_top - if_not) ** 2).sum())
        found.append((mean - noise_nats**2 * len(claimed), variance))
    return found


def probability_shift(top_probs: Sequence[float] | Floats, bias: float) -> float:
    """By how much the bias changes the probability of the likeliest token, on average."""
    claimed = np.asarray(top_probs, dtype=np.float64)
    true = (1 + bias) * claimed / (1 - claimed + (1 + bias) * claimed)
    return float(np.mean(true - claimed))
