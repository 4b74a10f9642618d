"""Find a lasting shift of a mean, with a bound on false flags for every distribution.

Values x in [0, 1] come one by one. The reference has mean m, measured on n values, and long-run
variance V: that of one value, or more where adjacent values resemble each other
(`long_run_variance`). The slack s = max(0.02, 2 sqrt(V / n)) covers the error of m and changes too
small to matter. For each side and each size of shift D there is a bet, whose capital changes with
every value by the factor

    e = 1 + b (x - (m + s))    if the mean rises,      b = (D - s) / (V + (D - s)²)
    e = 1 - b (x - (m - s))    if it falls

While the mean stays within m - s and m + s, no bet gains on average, whatever the distribution. The
detector starts every bet anew with each value and adds their capitals up (Shiryaev and Roberts):

    R = (R + 1) e,     evidence = mean R over the bets / 100,000,     flag at evidence 1

The mean of R minus the number of values never rises while nothing has shifted, so the mean number
of values until a false flag is at least 100,000, and the chance of one within N values is at most
N / 100,000. Both are reached at the edge of the slack at worst; at its middle, bets lose with
nearly every value, and flags are far rarer. (E-detectors: Shin, Ramdas and Rinaldo, arXiv
2203.03532; bets on bounded means: Waudby-Smith and Ramdas, arXiv 2010.09686.) After a shift by D,
capital grows by at most about (D - s)² / 2V per value, so a flag takes some 20 V / (D - s)² values
or more.

The bound assumes that each value's mean, given those before it, is within the slack. Where
adjacent values resemble each other it is not; smaller bets make up for that, approximately
(`EXCESS_SLACK`).

A CUSUM of the bets on the smallest shift runs beside it: the values since it was last 0 are those
after the change (`num_since_change`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

VALUES_PER_FALSE_FLAG = 100_000
MIN_SLACK = 0.02
"""Changes of acceptance up to this do not pay for a new draft. Chosen empirically."""
SLACK_ERRORS = 2.0
"""Standard errors of the reference's mean that the slack covers."""
SHIFTS = (0.1, 0.2)
"""Sizes of shifts that are bet on."""
LEAST_MARGIN = 0.02
"""Least difference of shift and slack that is bet on, for references that vary a great deal."""
MOST_LOSS = 0.9
"""A bet never loses more than this fraction of its capital at once."""
EXCESS_SLACK = 1.5
"""On values that resemble adjacent ones, a bet b gains b (b E / 2 - s) per value while nothing
has shifted, with the excess variance E and the slack s. So it must stay below 2 s / E; less, as
the reference has an error. Chosen empirically."""
BATCH = 20
"""Adjacent values whose mean shows how much they resemble each other."""
MIN_VARIANCE = 1e-4


class ShiftDetector:
    """Watches one mean. Start another one after a flag."""

    def __init__(
        self, mean: float, variance: float, num_values: int, excess_variance: float = 0.0
    ) -> None:
        """`mean` and long-run `variance` of a reference of `num_values` values.

        `excess_variance` is how much more it is than the variance of one value.
        """
        slack = max(MIN_SLACK, SLACK_ERRORS * math.sqrt(variance / num_values))
        most = EXCESS_SLACK * slack / max(excess_variance, MIN_VARIANCE)
        self._rise = _Side(1.0, min(mean + slack, 1.0), variance, slack, most)
        self._fall = _Side(-1.0, max(mean - slack, 0.0), variance, slack, most)

    def add(self, value: float) -> None:
        """Add a value from 0 to 1."""
        self._rise.add(value)
        self._fall.add(value)

    @property
    def evidence(self) -> float:
        """0 or more; a shift is flagged at 1."""
        return (self._rise.capital + self._fall.capital) / 2.0 / VALUES_PER_FALSE_FLAG

    @property
    def rises(self) -> bool:
        """Whether there is more evidence of a rise than of a fall."""
        return self._rise.capital > self._fall.capital

    def num_since_change(self, *, rises: bool) -> int:
        """Values since the likeliest time of a rise, or a fall; 0 where none is likely."""
        return (self._rise if rises else self._fall).num_in_run


class _Side:
    """The bets on one direction."""

    def __init__(
        self, sign: float, bound: float, variance: float, slack: float, most_bet: float
    ) -> None:
        self._sign = sign
        self._bound = bound
        most_lost = bound if sign > 0.0 else 1.0 - bound
        margins = [max(shift - slack, LEAST_MARGIN) for shift in SHIFTS]
        self._bets = [
            min(margin / (variance + margin**2), most_bet, MOST_LOSS / max(most_lost, MIN_SLACK))
            for margin in margins
        ]
        self._sums = [0.0] * len(SHIFTS)
        self._run = 0.0  # the CUSUM: a logarithm, 0 at the start of a run
        self.num_in_run = 0

    @property
    def capital(self) -> float:
        return fmean(self._sums)

    def add(self, value: float) -> None:
        gain = self._sign * (value - self._bound)
        self._sums = [
            (total + 1.0) * (1.0 + bet * gain)
            for total, bet in zip(self._sums, self._bets, strict=True)
        ]
        self._run += math.log1p(self._bets[0] * gain)
        self.num_in_run += 1
        if self._run <= 0.0:
            self._run, self.num_in_run = 0.0, 0


def long_run_variance(values: Sequence[float]) -> float:
    """The variance of a value, or of the mean of `BATCH` adjacent ones times `BATCH`, whichever is
    more.

    They are equal for independent values. Needs at least two batches.
    """
    batches = [
        fmean(values[start : start + BATCH]) for start in range(0, len(values) - BATCH + 1, BATCH)
    ]
    return max(variance(values), BATCH * variance(batches), MIN_VARIANCE)
