"""How long nothing is drafted before a test draft shows whether that is still right.

A test draft costs time, and waiting costs the gain that a changed text would bring. With the cost c
of a test in steps, the gain g of knowing how easy the text is (`gain_of_knowing`), and a text that
changes every m steps in the mean, the sum of both per step is least at

    pause = sqrt(2 c m / g)  steps

A change is likely when twice or half as many requests run as before, or a class of requests joins
that was not there. Then a test follows at once if it pays within `_HORIZON` steps, and the pause
begins again at a sixteenth of the above and doubles with every test.

A test with more accepted than expected is followed by another at once; else a batch of one request,
where a test is one verdict, would need thousands of steps to learn that its text is easy now. At
most `_MAX_IN_A_ROW` follow each other, and each one lengthens the next pause as if it had waited.

The cost of a test includes what a draft model that rests at length 0 must catch up with, learned
from the steps that did so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

# All chosen empirically on recorded drafts, on the costs of four machines.
_CHANGE_STEPS = 500.0
_HORIZON = 100.0
_FIRST = 1.0 / 16.0
_MAX_IN_A_ROW = 8
_CATCH_UP_GAIN = 0.5

_ACCEPTANCES = np.linspace(0.05, 1.0, 20)
_LEAST_COST = 0.01
_LONGEST = 1e9


def gain_of_knowing(seconds: Sequence[float]) -> float:
    """The mean gain over drafting nothing, as a fraction of its rate, over all acceptance rates, if
    the best length of each were chosen. `seconds` has a step's time at each length from 0 on.

    >>> round(gain_of_knowing([1.0, 1.5]), 3)  # from an acceptance of 0.5 on, up to a third
    0.083
    """
    lengths = np.arange(len(seconds))
    yields = np.cumsum(_ACCEPTANCES[:, None] ** lengths, axis=1)
    best = (yields * (seconds[0] / np.array(seconds))).max(axis=1)
    return float((best - 1.0).mean())


class UndraftedPause:
    """Counts the steps at length 0."""

    def __init__(self) -> None:
        self._fraction = _FIRST
        self._pause = 0.0
        self._steps = 0.0
        self._repeats = False
        self._num_in_a_row = 0
        self._num_requests = 0
        self._classes: set[str] = set()
        self._catch_up_s = 0.0

    def is_over(
        self, num_requests: int, classes: Mapping[str, int], seconds: Sequence[float], test: int
    ) -> bool:
        """Whether this step should have a test draft of `test` tokens. Counts the step.

        `seconds` has the time of a step at each length from 0 on.
        """
        gain = gain_of_knowing(seconds)
        cost = max((seconds[test] - seconds[0] + self._catch_up_s) / seconds[0], _LEAST_COST)
        self._pause = _LONGEST if gain <= 0.0 else math.sqrt(2.0 * cost * _CHANGE_STEPS / gain)
        self._pause *= self._fraction
        self._steps += 1.0
        if self._repeats:
            self._repeats = False
            self._num_in_a_row += 1
            self._steps -= self._pause
            return True
        if self._has_changed(num_requests, classes) and gain * _HORIZON > cost:
            self._fraction = _FIRST
        elif self._steps < self._pause:
            return False
        else:
            self._fraction = min(2.0 * self._fraction, 1.0)
        self._num_in_a_row, self._steps = 1, 0.0
        return True

    def repeat(self) -> None:
        """The last test draft was better than expected."""
        self._repeats = self._num_in_a_row < _MAX_IN_A_ROW

    def caught_up(self, excess_s: float) -> None:
        """A step in which the draft model caught up took this much longer than another."""
        self._catch_up_s += _CATCH_UP_GAIN * (max(excess_s, 0.0) - self._catch_up_s)

    def ended(self) -> None:
        """Drafting is worth it again."""
        self._fraction, self._steps, self._repeats = _FIRST, 0.0, False

    def _has_changed(self, num_requests: int, classes: Mapping[str, int]) -> bool:
        known = self._num_requests
        if num_requests >= 2 * known or 2 * num_requests <= known:
            self._num_requests, self._classes = num_requests, set(classes)
            return True
        if not self._classes.issuperset(classes):
            self._classes.update(classes)
            return True
        return False
