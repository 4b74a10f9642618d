"""The Hodges-Lehmann estimate of a location and its exact interval from Wilcoxon's signed ranks.

For differences d_1..d_n that are symmetric about their centre, the estimate is the median of the
Walsh averages (d_i + d_j) / 2, i <= j. If W is the sum of random signed ranks, the interval between
the (k + 1)-th smallest and the (k + 1)-th largest Walsh average covers the centre with probability
1 - 2 P(W <= k), whatever the shape of the distribution. Outliers, such as a stall of the machine in
one block, move it little.

Where it fails: if the differences are not symmetric, it estimates their pseudomedian, so rare large
stalls of one arm hardly show in it. Reference: Hollander, Wolfe and Chicken, Nonparametric
Statistical Methods, 3.2 and 3.3.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Interval = tuple[float, float]


def hodges_lehmann(differences: Sequence[float]) -> float:
    """The median of the Walsh averages; ValueError for no differences.

    >>> hodges_lehmann([1.0, 2.0, 3.0, 100.0])
    2.75
    """
    if not differences:
        raise ValueError("the estimate needs at least one difference")
    return float(np.median(_walsh_averages(differences)))


def signed_rank_interval(differences: Sequence[float], error: float) -> Interval | None:
    """The interval that misses the centre with a probability of at most `error`.

    None if there are too few differences for it: n differences allow 2 ** (1 - n) at best.

    >>> signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0], error=0.1)
    (1.0, 5.0)
    """
    if not 0 < error < 1:
        raise ValueError(f"error is {error}; it must be between 0 and 1")
    n = len(differences)
    # 1e-12: a sum of powers of two may miss the nominal probability by a rounding error.
    num_outside = int(np.searchsorted(_cumulative(n), error / 2 + 1e-12, side="right"))
    if num_outside == 0:
        return None
    averages = _walsh_averages(differences)
    return float(averages[num_outside - 1]), float(averages[-num_outside])


def min_differences(error: float) -> int:
    """The smallest number of differences for which `signed_rank_interval` gives an interval.

    >>> min_differences(0.05), min_differences(0.01)
    (6, 8)
    """
    n = 1
    while 0.5**n > error / 2:
        n += 1
    return n


def _walsh_averages(differences: Sequence[float]) -> npt.NDArray[np.float64]:
    """All averages of two differences, each with itself too, ascending, (n * (n + 1) / 2,)."""
    values = np.asarray(differences, dtype=np.float64)
    first, second = np.triu_indices(len(values))
    return np.sort((values[first] + values[second]) / 2)


@functools.lru_cache(maxsize=512)
def _cumulative(n: int) -> npt.NDArray[np.float64]:
    """P(W <= k) for k = 0, 1, …; W is the sum of those of the ranks 1..n with a positive sign."""
    probabilities = np.zeros(n * (n + 1) // 2 + 1)
    probabilities[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(probabilities)
        shifted[rank:] = probabilities[:-rank]
        probabilities = (probabilities + shifted) / 2
    return np.cumsum(probabilities)
