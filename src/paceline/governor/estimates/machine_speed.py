"""How many times as long every step takes, compared with when its cost was learned.

    residual = log(duration / expected duration at factor 1) - log(factor)
    log(factor) += _GAIN * residual                      while |residual| <= large
    log(factor) += median of the last _CONFIRMED ones    when all are larger, of one sign

A machine that slows down (its clock, another tenant) slows every step, also the shapes of step that
are not in use. The factor takes such a change as a whole, within a few steps, and the costs that
were learned keep their proportions. The gain is several times that of a single cost (see
`cell_regression`), so that a drift is attributed to the machine. A single slow step is not a slow
machine: a large residual changes nothing until others confirm it.

A machine that is suddenly slower by more than `_MUCH` is *disturbed*: other work takes its time,
and will probably give it back. The factor has the slowdown, but nothing is learned from such steps.
What would be learned depends on where a disturbance begins and ends, which shows only afterwards: a
shape first seen just after one would be entered as several times too cheap, and the shapes in use
would confirm the factor that is wrong. Nothing makes a step faster than it is, so the first one at
the old speed ends it. After `_LASTING` steps it is no disturbance but the machine's new speed. And
it is taken to be over after `_UNWITNESSED` steps in a row of shapes that are hardly known: at
another load nothing could tell, and nothing would be learned there.
Measured on a shared machine with two cores: disturbances took a tenth of the time, for 0.1 to 10 s
each, in which steps took 2 to 15 times as long.

Only the product of factor and costs is determined by the data, and only the proportions of the
costs decide on a draft length: a factor that is off for all lengths alike does no harm. Assumes
that the caller compares a step with earlier steps of the same shape; a shape without any says
nothing about the machine, except that a disturbance is over.

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
_MUCH = 0.3
_AT_OLD_SPEED = 0.2
_LASTING = 128
_UNWITNESSED = 32


class MachineSpeed:
    """Tracks the common factor of all durations; 1 before the first change."""

    def __init__(self) -> None:
        self._log_factor = 0.0  # without the slowdown of a disturbance
        self._log_slowdown = 0.0
        self._num_disturbed = 0  # steps since the disturbance was confirmed; 0 for none
        self._num_glances = 0  # since a step of a shape that is well known
        self._large: deque[float] = deque(maxlen=_CONFIRMED)
        self._num_settled = 0  # steps since the last change
        self.factor = 1.0
        """Duration now over duration when learned; positive. Read only."""
        self.noise = _FIRST_NOISE
        """Relative standard deviation of one duration. Read only."""

    @property
    def is_settled(self) -> bool:
        """Whether the last `_SETTLED` steps brought no change. After one, the time of a step is
        compared with others of another moment."""
        return self._num_settled >= _SETTLED and not self._large and not self.is_disturbed

    @property
    def is_disturbed(self) -> bool:
        """Whether other work takes the machine's time, so that nothing can be learned."""
        return self._num_disturbed > 0

    def add(self, ratio: float) -> bool:
        """Learn from a duration over its expectation at factor 1, both positive. Returns whether
        the step fits the factor; one that does not is a stall, or the first of a change."""
        residual = math.log(ratio) - self._log_factor
        large = min(max(_LARGE, _LARGE_NOISES * self.noise), _MOST_LARGE)
        self._num_settled += 1
        self._num_glances = 0
        if self.is_disturbed:
            if residual > max(large, _AT_OLD_SPEED):
                self._follow(residual)
                return False
            self._recover()
        deviation = _MEAN_TO_DEVIATION * min(abs(residual), large)
        self.noise += _NOISE_GAIN * (deviation - self.noise)
        if abs(residual) <= large:
            self._large.clear()
            self._move(_GAIN * residual)
            return True
        if self._large and (self._large[-1] > 0.0) != (residual > 0.0):
            self._large.clear()
        self._large.append(residual)
        if len(self._large) < _CONFIRMED:
            return False
        middle = sorted(self._large)[_CONFIRMED // 2 - 1 : _CONFIRMED // 2 + 1]
        change = sum(middle) / len(middle)
        self._large.clear()
        self._num_settled = 0
        if change > _MUCH:
            self._num_disturbed = 1
            self._log_slowdown = change
            self._move(0.0)
            return False
        self._move(change)
        return True

    def glance(self, ratio: float) -> None:
        """See whether a disturbance is over, in a step of a shape that is hardly known: its
        duration over its expectation at factor 1."""
        if not self.is_disturbed:
            return
        self._num_glances += 1
        is_at_old_speed = math.log(ratio) - self._log_factor <= _MUCH
        if is_at_old_speed or self._num_glances >= _UNWITNESSED:
            self._recover()

    def _follow(self, residual: float) -> None:
        self._num_disturbed += 1
        self._log_slowdown += _GAIN * min(max(residual - self._log_slowdown, -1.0), 1.0)
        if self._num_disturbed <= _LASTING:
            self._move(0.0)
            return
        lasting = self._log_slowdown
        self._recover()
        self._move(lasting)

    def _recover(self) -> None:
        self._num_disturbed = self._num_settled = self._num_glances = 0
        self._log_slowdown = 0.0
        self._move(0.0)

    def _move(self, by: float) -> None:
        self._log_factor += by
        self.factor = math.exp(self._log_factor + self._log_slowdown)
