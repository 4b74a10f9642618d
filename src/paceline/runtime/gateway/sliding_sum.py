"""`SlidingSum`: a sum over a sliding window of time, in a ring of buckets.

The memory is fixed, whatever the load. Decisions that depend on recent traffic use it.
"""

from __future__ import annotations

import math

_NUM_BUCKETS = 10
"""Chosen empirically: the window is exact to a tenth of its length."""


class SlidingSum:
    """The sum of what was added during the last `window_s` seconds.

    A bucket expires as a whole, so an amount counts for 0.9 to 1 of the window's length after it
    was added. A time before the latest one is taken as the latest.

    >>> num_requests = SlidingSum(10)
    >>> num_requests.add(1, now_s=100.0)
    >>> num_requests.total(now_s=105.0), num_requests.total(now_s=111.0)
    (1.0, 0.0)
    """

    __slots__ = ("_bucket_s", "_buckets", "_latest", "_total")

    def __init__(self, window_s: float) -> None:
        self._bucket_s = window_s / _NUM_BUCKETS
        self._buckets = [0.0] * _NUM_BUCKETS
        self._latest: int | None = None
        """Number of the newest bucket, counted from time zero."""
        self._total = 0.0

    def add(self, amount: float, now_s: float) -> None:
        """Add an amount at this time. Mutates."""
        self._buckets[self._advance(now_s) % _NUM_BUCKETS] += amount
        self._total += amount

    def total(self, now_s: float) -> float:
        """The sum now. Empties expired buckets."""
        self._advance(now_s)
        return self._total

    def _advance(self, now_s: float) -> int:
        bucket = math.floor(now_s / self._bucket_s)
        if self._latest is None:
            self._latest = bucket
        num_passed = bucket - self._latest
        if num_passed > 0:
            for step in range(1, min(num_passed, _NUM_BUCKETS) + 1):
                self._buckets[(self._latest + step) % _NUM_BUCKETS] = 0.0
            self._latest = bucket
            self._total = sum(self._buckets)  # so rounding errors do not build up
        return self._latest
