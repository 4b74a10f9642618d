"""How long nothing is drafted before a test draft shows whether that is still right.

With the cost c of a test in steps (what a draft model at rest must catch up with is part of it),
the gain g of knowing how easy the text is (`gain_of_knowing`), and a text that changes every m
steps in the mean, the cost of tests and the gain missed between them are together least at

    pause = sqrt(2 c m / g)  steps

A change is likely when twice or half as many requests run as before, or a class of requests joins
that was not there. Then a test follows at once if it pays within `_HORIZON` steps and none did so
for a quarter of the pause. The pause begins again at a sixteenth and doubles with every test.

In a batch of one a test is one verdict, and one per pause would take thousands of steps to show
that the text is easy now. So tests follow each other while the sum of log-likelihood ratios, of the
acceptance from which on drafting pays against the expected one, is positive (the CUSUM test of
Page, 1954). Each one lengthens the next pause as if it had waited.

Where no costs were measured, a test also shows what drafting costs: the gain counts as
`_LEAST_GAIN` at least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

# All chosen empirically on recorded drafts, on the costs of four machines.
_CHANGE_STEPS = 500.0
_HORIZON = 100.0
_LEAST_GAIN = 0.1
_FIRST = 1.0 / 16.0
_REST = 1.0 / 4.0
_MAX_IN_A_ROW = 24
_MOST_VERDICTS = 8.0
"""Of one step, as in `acceptance.hazards`."""
_CATCH_UP_GAIN = 0.5

_ACCEPTANCES = (np.arange(20) + 0.5) / 20.0
_MOST_ACCEPTANCE = 0.975
_LEAST_COST = 0.01
_LONGEST = 1e4
"""Steps."""


def gain_of_knowing(seconds: Sequence[float]) -> tuple[float, float]:
    """The mean gain over drafting nothing, as a fraction of its rate, over all acceptance rates, if
    the best length of each were chosen; and the least acceptance with a gain.

    `seconds` has a step's time at each length from 0 on.

    >>> gain, least = gain_of_knowing([1.0, 1.5])  # up to a third, from an acceptance of 0.5 on
    >>> round(gain, 3), float(least)
    (0.083, 0.525)
    """
    lengths = np.arange(len(seconds))
    yields = np.cumsum(_ACCEPTANCES[:, None] ** lengths, axis=1)
    best = (yields * (seconds[0] / np.array(seconds))).max(axis=1)
    paying = np.flatnonzero(best > 1.0)
    least = _ACCEPTANCES[paying[0]] if len(paying) else _MOST_ACCEPTANCE
    return float((best - 1.0).mean()), float(least)


class UndraftedPause:
    """Counts the steps at length 0."""

    def __init__(self, *, is_cost_measured: bool = True) -> None:
        self._least_gain = 0.0 if is_cost_measured else _LEAST_GAIN
        self._fraction = _FIRST
        self._pause = 0.0
        self._steps = 0.0
        self._since_change = math.inf
        self._evidence = 0.0
        self._break_even = _MOST_ACCEPTANCE
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
        gain, self._break_even = gain_of_knowing(seconds)
        gain = max(gain, self._least_gain)
        cost = max((seconds[test] - seconds[0] + self._catch_up_s) / seconds[0], _LEAST_COST)
        self.count_step()
        if gain <= 0.0:
            self._repeats, self._pause = False, math.inf
            return False
        longest = min(math.sqrt(2.0 * cost * _CHANGE_STEPS / gain), _LONGEST)
        self._pause = self._fraction * longest
        if self._repeats:
            self._repeats = False
            self._num_in_a_row += 1
            self._steps -= self._pause
            return True
        has_changed = self._has_changed(num_requests, classes)
        if has_changed and self._since_change > _REST * longest and gain * _HORIZON > cost:
            self._fraction, self._since_change = _FIRST, 0.0
        elif self._steps < self._pause:
            return False
        else:
            self._fraction = min(2.0 * self._fraction, 1.0)
        self._num_in_a_row, self._steps = 1, 0.0
        return True

    def count_step(self) -> None:
        """Count a step that `is_over` is not asked about."""
        self._steps += 1.0
        self._since_change += 1.0

    def steps_left(self) -> int:
        """Steps that `is_over` need not be asked about as long as the load stays."""
        left = self._pause - self._steps
        return max(math.ceil(min(left, _LONGEST)) - 1, 0)

    def judge(self, num_accepted: int, num_judged: int, expected: float) -> None:
        """Learn the verdicts of a test draft; `expected` is the acceptance before it."""
        pays, before = self._break_even, max(expected, 0.01)
        if before >= pays:  # acceptance is not what keeps drafting off
            return
        weight = min(1.0, _MOST_VERDICTS / num_judged)
        self._evidence += weight * num_accepted * math.log(pays / before)
        self._evidence += (
            weight * (num_judged - num_accepted) * math.log((1.0 - pays) / (1.0 - before))
        )
        self._evidence = max(self._evidence, 0.0)
        self._repeats = self._evidence > 0.0 and self._num_in_a_row < _MAX_IN_A_ROW

    def caught_up(self, excess_s: float) -> None:
        """A step in which the draft model caught up took this much longer than another."""
        self._catch_up_s += _CATCH_UP_GAIN * (max(excess_s, 0.0) - self._catch_up_s)

    def ended(self) -> None:
        """Drafting is worth it again."""
        self._fraction, self._steps, self._since_change = _FIRST, 0.0, math.inf
        self._evidence, self._repeats = 0.0, False

    def _has_changed(self, num_requests: int, classes: Mapping[str, int]) -> bool:
        known = self._num_requests
        if num_requests >= 2 * known or 2 * num_requests <= known:
            self._num_requests, self._classes = num_requests, set(classes)
            return True
        if not self._classes.issuperset(classes):
            self._classes.update(classes)
            return True
        return False
