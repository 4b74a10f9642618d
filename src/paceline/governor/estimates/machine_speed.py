"""How many times as long every step takes, compared with when its cost was learned.

    residual = log(duration / expected duration at factor 1) - log(factor)
    log(factor) += _GAIN * residual                      while |residual| <= large
    log(factor) += median of the last _CONFIRMED ones    when all are larger, of one sign

A machine that slows down (its clock, another tenant) slows every step, also the shapes of step that
are not in use. The factor takes such a change as a whole, within a few steps, and the costs that
were learned keep their proportions. The gain is several times that of a single cost (see
`cell_regression`), so that a drift is attributed to the machine. A single slow step is not a slow
machine: a large residual changes nothing until others confirm it.

Only the product of factor and costs is determined by the data, and only the proportions of the
costs decide on a draft length: a factor that is off for all lengths alike does no harm. Assumes
that the caller compares a step with earlier steps of the same shape; a shape without any says
nothing about the machine.

The residuals that are left are the noise of the durations:

    noise += _NOISE_GAIN * (sqrt(pi / 2) * min(|residual|, large) - noise)
    large  = max(_LARGE, _LARGE_NOISES * noise), at most _MOST_LARGE

which is the standard deviation where the noise is normal. On a noisy machine a residual of the
usual size is thus no stall: left out, it would be missing where the costs are learned.
"""

from __future__ import annotations

import math
from collections import deque

# All chosen empirically on the simulator.
_GAIN = 0.25
_LARGE = 0.15
_MOST_LARGE = 0.5
_LARGE_NOISES = 3.0
_CONFIRMED = 4
_SETTLED = 16
_FIRST_NOISE = 0.05
_NOISE_GAIN = 0.02
_MEAN_TO_DEVIATION = math.sqrt(math.pi / 2.0)


class MachineSpeed:
    """Tracks the common factor of all durations; 1 before the first change."""

    def __init__(self) -> None:
        self._log_factor = 0.0
        self._large: deque[float] = deque(maxlen=_CONFIRMED)
        self.factor = 1.0
        """Duration now over duration when learned; positive. Read only."""
        self._num_settled = 0  # steps since the last large one
        self.noise = _FIRST_NOISE
        """Relative standard deviation of one duration. Read only."""

    @property
    def is_settled(self) -> bool:
        """Whether the last `_SETTLED` steps fitted the factor. After a change, the time of a step
        is compared with others of another moment."""
        return self._num_settled >= _SETTLED

    def add(self, ratio: float) -> bool:
        """Learn from a duration over its expectation at factor 1, both positive. Returns whether
        the step fits the factor; one that does not is a stall, or the first of a change."""
        residual = math.log(ratio) - self._log_factor
        large = min(max(_LARGE, _LARGE_NOISES * self.noise), _MOST_LARGE)
        deviation = _MEAN_TO_DEVIATION * min(abs(residual), large)
        self.noise += _NOISE_GAIN * (deviation - self.noise)
        if abs(residual) <= large:
            self._large.clear()
            self._num_settled += 1
            self._move(_GAIN * residual)
            return True
        self._num_settled = 0
        if self._large and (self._large[-1] > 0.0) != (residual > 0.0):
            self._large.clear()
        self._large.append(residual)
        if len(self._large) < _CONFIRMED:
            return False
        middle = sorted(self._large)[_CONFIRMED // 2 - 1 : _CONFIRMED // 2 + 1]
        self._large.clear()
        self._move(sum(middle) / len(middle))
        return True

    def _move(self, by: float) -> None:
        self._log_factor += by
        self.factor = math.exp(self._log_factor)
