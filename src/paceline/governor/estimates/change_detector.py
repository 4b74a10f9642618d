"""A two-sided CUSUM test for a change of acceptance beyond chance.

    up   <- max(0, up   + z - slack)
    down <- max(0, down - z - slack)      changed when either exceeds the threshold

z is the step's surprise: accepted tokens minus expected, over their standard deviation, clipped to
±3 because accepted counts are skewed at one request per step. With slack 0.5 and threshold 8, a
shift of one standard deviation per step is found in about 16 steps, and one of two in about 6. A
false alarm comes once in thousands of steps and costs one relearning. Reference: Page (1954).
"""

from __future__ import annotations

import math

_SLACK = 0.5
_THRESHOLD = 8.0
_MAX_SURPRISE = 3.0


class ChangeDetector:
    """Accumulates surprises; starts over after each alarm.

    >>> detector = ChangeDetector()
    >>> [detector.observe(2.0) for _ in range(6)]  # 1.5 per step: past 8 with the sixth
    [False, False, False, False, False, True]
    """

    def __init__(self) -> None:
        self._up = 0.0
        self._down = 0.0

    def observe(self, surprise: float, num_steps: int = 1) -> bool:
        """Add the surprise of one step, or of `num_steps` together, spread evenly over them; True
        when a change is detected."""
        each = surprise / math.sqrt(num_steps)
        clipped = min(max(each, -_MAX_SURPRISE), _MAX_SURPRISE)
        self._up = max(0.0, self._up + num_steps * (clipped - _SLACK))
        self._down = max(0.0, self._down - num_steps * (clipped + _SLACK))
        if self._up <= _THRESHOLD and self._down <= _THRESHOLD:
            return False
        self._up = self._down = 0.0
        return True
