"""Percentiles of a time from the buckets of its histogram."""

from __future__ import annotations

import math

from paceline.runtime.gateway.live_view.values import Percentiles

Buckets = tuple[tuple[float, float], ...]
"""Upper bound in seconds and cumulative count of each bucket, ascending; the last bound is inf."""


def percentiles_of(buckets: Buckets) -> Percentiles | None:
    """The percentiles of what is counted in these buckets; None without a count.

    >>> percentiles_of(((0.1, 50), (0.2, 100), (float("inf"), 100)))
    Percentiles(p50_ms=100.0, p90_ms=180.0, p99_ms=198.0)
    """
    if not buckets or buckets[-1][1] <= 0:
        return None
    p50, p90, p99 = (round(_quantile(buckets, q) * 1e3, 3) for q in (0.5, 0.9, 0.99))
    return Percentiles(p50, p90, p99)


def _quantile(buckets: Buckets, fraction: float) -> float:
    """By linear interpolation within a bucket, like `histogram_quantile` of Prometheus.

    What lies above the highest finite bound counts as that bound.
    """
    wanted = fraction * buckets[-1][1]
    lower, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted and count > below:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (wanted - below) / (count - below)
        lower, below = (lower if math.isinf(bound) else bound), count
    return lower
