"""`Histogram`: one Prometheus histogram, and what it says about quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per bucket. The last bound is infinite."""

    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]
    """Observations up to each bound, (num_bounds,)."""
    total: float
    """Sum of all observations."""

    def __post_init__(self) -> None:
        if len(self.bounds) != len(self.cumulative) or not self.bounds:
            raise ValueError("a histogram needs one count per bound")
        if list(self.bounds) != sorted(set(self.bounds)) or not math.isinf(self.bounds[-1]):
            raise ValueError(f"the bounds {self.bounds} do not rise to infinity")

    @property
    def count(self) -> float:
        return self.cumulative[-1]

    @property
    def mean(self) -> float | None:
        """None without an observation."""
        return self.total / self.count if self.count > 0 else None

    def minus(self, earlier: Histogram) -> Histogram | None:
        """What was observed since `earlier`; None if the counts fell: the server restarted."""
        if earlier.bounds != self.bounds:
            return None
        counts = tuple(a - b for a, b in zip(self.cumulative, earlier.cumulative, strict=True))
        if min(counts) < 0:
            return None
        return Histogram(self.bounds, counts, self.total - earlier.total)

    def count_above(self, bound: float) -> float:
        """Observations above one of the bounds, or 0.

        >>> Histogram((1.0, 2.0, math.inf), (5.0, 9.0, 10.0), 12.0).count_above(1.0)
        5.0
        """
        below = [
            count for one, count in zip(self.bounds, self.cumulative, strict=True) if one <= bound
        ]
        return self.count - (below[-1] if below else 0.0)

    def bucket_of(self, quantile: float) -> tuple[float, float] | None:
        """Lower and upper bound of the bucket with this quantile; None without observations.

        The upper bound of the last bucket is infinite.

        >>> Histogram((1.0, 2.0, math.inf), (5.0, 9.0, 10.0), 12.0).bucket_of(0.5)
        (0.0, 1.0)
        """
        if self.count <= 0:
            return None
        rank, lower = quantile * self.count, 0.0
        for bound, count in zip(self.bounds, self.cumulative, strict=True):
            if count >= rank and count > 0:
                return lower, bound
            lower = bound
        return None

    def quantile(self, fraction: float) -> float | None:
        """The value, by linear interpolation within its bucket; None without observations.

        What lies above the last finite bound counts as that bound.

        >>> Histogram((1.0, 2.0, math.inf), (5.0, 10.0, 10.0), 12.0).quantile(0.75)
        1.5
        """
        bucket = self.bucket_of(fraction)
        if bucket is None or math.isinf(bucket[1]):
            return None if bucket is None else bucket[0]
        lower, upper = bucket
        below, up_to = self.count - self.count_above(lower), self.count - self.count_above(upper)
        return lower + (upper - lower) * (fraction * self.count - below) / (up_to - below)


def sum_histograms(histograms: Sequence[Histogram]) -> Histogram | None:
    """All of them together; None without one, or if their bounds differ."""
    if not histograms or any(one.bounds != histograms[0].bounds for one in histograms):
        return None
    columns = zip(*(one.cumulative for one in histograms), strict=True)
    return Histogram(
        histograms[0].bounds, tuple(map(sum, columns)), sum(one.total for one in histograms)
    )
