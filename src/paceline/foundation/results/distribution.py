"""Percentiles of a sample, each with a confidence interval.

Percentiles interpolate linearly between order statistics (Hyndman and Fan's type 7, NumPy's
"linear"). Their intervals are distribution-free: of n independent samples, the number
below the true q-quantile is binomial, so the order statistics of rank
ceil(nq -/+ 1.96 sqrt(nq(1 - q))) enclose it with about 95 % (Conover, Practical Nonparametric
Statistics, 3.2). Where such a rank does not exist there are too few samples for an interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PERCENTILE_METHOD = "linear interpolation between order statistics (Hyndman-Fan type 7)"
MIN_REQUESTS_FOR_P99 = 500
"""Five samples beyond the percentile; with fewer, p99 is little more than the slowest request."""
_Z_95 = 1.96

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of one quantity in milliseconds; every figure is None without samples."""

    num_samples: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    p50_ci95: Interval | None
    p90_ci95: Interval | None
    p99_ci95: Interval | None
    note: str | None


def describe_ms(
    samples_s: Sequence[float], num_requests: int, independent: bool = True
) -> Distribution:
    """The distribution in milliseconds of samples in seconds from `num_requests` requests.

    `independent` is False for several samples per request (gaps between chunks): such samples are
    correlated, so they get no interval.
    """
    if not samples_s:
        return Distribution(0, None, None, None, None, None, None, None, None, "no samples")
    samples_ms = np.sort(np.asarray(samples_s, dtype=np.float64)) * 1e3
    p50, p90, p99 = (float(p) for p in np.percentile(samples_ms, (50, 90, 99)))
    intervals: list[Interval | None] = [None, None, None]
    if independent:
        intervals = [_interval(samples_ms.tolist(), q) for q in (0.5, 0.9, 0.99)]
    note = None
    if num_requests < MIN_REQUESTS_FOR_P99:
        note = (
            f"p99 comes from {num_requests} requests; with fewer than {MIN_REQUESTS_FOR_P99} it is "
            "little more than the slowest request"
        )
    return Distribution(
        num_samples=len(samples_ms),
        mean=float(samples_ms.mean()),
        p50=p50,
        p90=p90,
        p99=p99,
        max=float(samples_ms[-1]),
        p50_ci95=intervals[0],
        p90_ci95=intervals[1],
        p99_ci95=intervals[2],
        note=note,
    )


def _interval(sorted_samples: Sequence[float], quantile: float) -> Interval | None:
    n = len(sorted_samples)
    half_width = _Z_95 * math.sqrt(n * quantile * (1 - quantile))
    lower_rank = math.ceil(n * quantile - half_width)
    upper_rank = math.ceil(n * quantile + half_width)
    if lower_rank < 1 or upper_rank > n:
        return None
    return sorted_samples[lower_rank - 1], sorted_samples[upper_rank - 1]
