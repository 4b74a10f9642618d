"""Acceptance by half hours: whether it has fallen to stay.

Every shift is reported at once, but a new draft takes time to train and pays only where traffic
stays as it is. So the last half hour that ended is compared with the best level of those before it,
up to a day of them. A level is the lowest of `NUM_IN_A_ROW` half hours in a row, so that what is
good for an hour at most is none. What comes and goes within half an hour is in the mean of its half
hour; several falls add up; when acceptance is back for half an hour, nothing has fallen. A level
that was last seen a day of half hours ago is forgotten: what has replaced it is what is usual now.

Only time with requests counts: a pause does up to `_MOST_PAUSE_S`. A half hour lasts longer where
it would have less than `_MIN_REQUESTS`.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean

from paceline.runtime.engine.drift.category_watch import AcceptanceLevel, AcceptanceShift
from paceline.runtime.engine.drift.shift_detector import BATCH, MIN_VARIANCE
from paceline.runtime.engine.drift.text_acceptance import AcceptanceSums

HALF_HOUR_S = 1800.0
"""As long as a draft for one task trains on a processor (docs/how-to/train-a-draft.md)."""
NUM_KEPT = 48
NUM_IN_A_ROW = 3
LEAST_FALL = 0.05
"""Of the acceptance. A smaller one is seldom worth another draft. Chosen empirically."""
_ERRORS = 5.0
"""Standard errors of the difference that a fall must exceed. That many because the best of
`NUM_KEPT` equal half hours is some 2.2 of its own above the mean, and every half hour is
compared."""
_MIN_REQUESTS = 100
_MOST_PAUSE_S = 60.0


class HalfHours:
    """The half hours of one category."""

    def __init__(self) -> None:
        self._ended = deque[AcceptanceLevel](maxlen=NUM_KEPT)
        self.num_ended = 0
        """Since the start."""
        self._at_s: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._seconds = 0.0
        self._values = _Moments()
        self._batches = _Moments()
        self._batch_sum, self._batch_size = 0.0, 0
        self._sums = AcceptanceSums()

    @property
    def fall(self) -> AcceptanceShift | None:
        """From the best level to the last half hour, where that is less for certain."""
        if not self._ended:
            return None
        last = self._ended[-1]
        ended = list(self._ended)
        rows = (ended[i : i + NUM_IN_A_ROW] for i in range(len(ended) - NUM_IN_A_ROW + 1))
        best = max((min(row, key=_mean) for row in rows), key=_mean, default=last)
        # The variance is that of all half hours: the extreme ones have extreme errors of it, too.
        variance = fmean(level.variance for level in self._ended)
        error = math.sqrt(variance * (1 / best.num_requests + 1 / last.num_requests))
        if best.mean - last.mean <= max(LEAST_FALL, _ERRORS * error):
            return None
        return AcceptanceShift(best, last)

    def seconds_since(self, now_s: float) -> float:
        """Since the last request; infinite without one."""
        return math.inf if self._at_s is None else now_s - self._at_s

    def add(self, request: AcceptanceSums, now_s: float) -> None:
        """Add a value of `CategoryWatch`, completed at `now_s` of a monotonic clock."""
        if self._at_s is not None:
            self._seconds += min(now_s - self._at_s, _MOST_PAUSE_S)
        self._at_s = now_s
        self._values.add(request.acceptance)
        self._sums.add(request)
        self._batch_sum += request.acceptance
        self._batch_size += 1
        if self._batch_size == BATCH:
            self._batches.add(self._batch_sum / BATCH)
            self._batch_sum, self._batch_size = 0.0, 0
        if self._seconds >= HALF_HOUR_S and self._values.num >= _MIN_REQUESTS:
            self._end()

    def _end(self) -> None:
        # As `long_run_variance`: requests that resemble adjacent ones are worth less.
        variance = max(self._values.variance, BATCH * self._batches.variance, MIN_VARIANCE)
        num = self._values.num
        level = AcceptanceLevel(self._values.mean, variance, num, self._sums.hazards())
        self._ended.append(level)
        self.num_ended += 1
        self._begin()


def _mean(level: AcceptanceLevel) -> float:
    return level.mean


class _Moments:
    """Mean and variance of numbers, by Welford's method."""

    def __init__(self) -> None:
        self.num = 0
        self.mean = 0.0
        self._squares = 0.0

    @property
    def variance(self) -> float:
        return self._squares / (self.num - 1) if self.num > 1 else 0.0

    def add(self, value: float) -> None:
        self.num += 1
        difference = value - self.mean
        self.mean += difference / self.num
        self._squares += difference * (value - self.mean)
