"""Bounds on the mean of bounded values, by betting: exact for any distribution and sample size.

For values in [-1, 1] with a mean of at least m, each factor 1 + c ((1 - value) / (1 - m) - 1), with
0 < c < 1, is positive and has an expectation of at most 1. So the average over several c of their
products, the capital, ever reaches 1 / error with a probability of at most `error` (Ville's
inequality), also when values are added until the result is clear. The upper bound is the smallest m
at which the capital has reached 1 / error. The tests need no normal approximation, which fails for
outcomes that rarely differ.

Reference: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (2024).
"""

from __future__ import annotations

import numpy as np

from paceline.foundation.answer_quality.values import Floats, Interval

_STAKES: Floats = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.97])
"""The c. Chosen empirically: small ones for noisy values, large ones for values that are nearly all
alike."""
_STEPS = 40
"""Halvings of the interval of m: exact to 2e-12."""


def bounded_mean(values: Floats, error: float) -> Interval:
    """The mean of values (num_values,) in [-1, 1]; each bound errs with probability <= `error`."""
    if not len(values):
        return Interval(0.0, -1.0, 1.0)
    return Interval(
        value=float(values.mean()),
        low=-_upper_bound(-values, error),
        high=_upper_bound(values, error),
    )


def _upper_bound(values: Floats, error: float) -> float:
    low, high = -1.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _log_capital(values, middle) >= -np.log(error):
            high = middle
        else:
            low = middle
    return high


def _log_capital(values: Floats, mean: float) -> float:
    """ln of the capital against a mean of at least `mean`, which grows with `mean`."""
    bets = np.log1p(_STAKES[:, None] * ((1 - values) / (1 - mean) - 1)).sum(axis=1)
    most = bets.max()
    return float(most + np.log(np.exp(bets - most).mean()))
