"""How long nothing is drafted before one draft shows whether that is still right.

    pause = 1 step, then 2, 4, 8, … 128

A look that finds nothing doubles the pause. It is short again when drafting promises more than at
the look before, or the load is another one: twice or half as many requests as when it last was, or
a class that was not among them since.
"""

from __future__ import annotations

from collections.abc import Mapping

_FIRST_PAUSE, _LAST_PAUSE = 1, 128
"""Steps."""
_MORE = 1.03
"""Both chosen empirically on recorded drafts."""


class UndraftedPause:
    """Counts the steps at length 0."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE
        self._steps = 0
        self._num_requests = 0
        self._classes: set[str] = set()
        self._promise = 0.0

    def is_over(self, num_requests: int, classes: Mapping[str, int], promise: float) -> bool:
        """Whether this step should draft. Counts the step.

        `promise` is the value of the best length above 0, over that of 0.
        """
        known = self._num_requests
        is_other_size = num_requests >= 2 * known or 2 * num_requests <= known
        if is_other_size:
            self._num_requests, self._classes = num_requests, set()
        if (
            not self._classes.issuperset(classes)
            or promise > _MORE * self._promise
            or is_other_size
        ):
            self._classes.update(classes)
            self._promise = promise
            self._pause = _FIRST_PAUSE
        self._steps += 1
        if self._steps < self._pause:
            return False
        self._steps = 0
        self._promise = promise
        self._pause = min(2 * self._pause, _LAST_PAUSE)
        return True

    def ended(self) -> None:
        """Drafting is worth it again."""
        self._pause, self._steps = _FIRST_PAUSE, 0
