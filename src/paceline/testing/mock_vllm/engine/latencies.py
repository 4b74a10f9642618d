"""The latency histograms of the engine, with the bounds of vLLM 0.32."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

REQUEST_BOUNDS_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
FIRST_TOKEN_BOUNDS_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
INTER_TOKEN_BOUNDS_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip


class LatencyHistogram:
    """Observations of one latency since the start."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds_s = tuple(bounds_s)
        self._counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count it in the first bucket whose upper bound it does not exceed."""
        self._counts[bisect.bisect_left(self._bounds_s, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and cumulative count of each bucket, as Prometheus shows them."""
        bounds = [str(bound) for bound in self._bounds_s] + ["+Inf"]
        return list(zip(bounds, map(float, itertools.accumulate(self._counts)), strict=True))


class Latencies:
    """The histograms of one engine."""

    def __init__(self) -> None:
        self.first_token = LatencyHistogram(FIRST_TOKEN_BOUNDS_S)
        self.inter_token = LatencyHistogram(INTER_TOKEN_BOUNDS_S)
        """Time between two steps of a sequence, whatever number of tokens they yield."""
        self.queue = LatencyHistogram(REQUEST_BOUNDS_S)
        """Of finished sequences, until their prefill began for the first time."""
