"""How long nothing is drafted before one draft shows whether that is still right.

    pause = 1 step, then 2, 4, 8, … 128

Each test draft doubles the pause. One with more accepted than was expected is followed by another
at once; else a batch of one request, where a test draft is one verdict, would need thousands of
steps to learn that its text is easy now. At most `_MAX_IN_A_ROW` follow each other, and each
lengthens the next pause by as much as if it had waited, so that in the long run one step in 128 has
a test draft. The pause is short again when the load is another one: twice or half as many requests
as when it last was, or a class that was not among them since.
"""

from __future__ import annotations

from collections.abc import Mapping

_FIRST_PAUSE, _LAST_PAUSE = 1, 128
"""Steps. Chosen empirically on recorded drafts."""
_MAX_IN_A_ROW = 8


class UndraftedPause:
    """Counts the steps at length 0."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE
        self._steps = 0
        self._repeats = False
        self._num_in_a_row = 0
        self._num_requests = 0
        self._classes: set[str] = set()

    def is_over(self, num_requests: int, classes: Mapping[str, int]) -> bool:
        """Whether this step should draft. Counts the step."""
        known = self._num_requests
        if num_requests >= 2 * known or 2 * num_requests <= known:
            self._num_requests, self._classes = num_requests, set(classes)
            self._pause, self._steps = _FIRST_PAUSE, 0
        elif not self._classes.issuperset(classes):
            self._classes.update(classes)
            self._pause, self._steps = _FIRST_PAUSE, 0
        self._steps += 1
        if self._repeats:
            self._repeats = False
            self._num_in_a_row += 1
            self._steps -= self._pause
            return True
        if self._steps < self._pause:
            return False
        self._num_in_a_row = 1
        self._steps = 0
        self._pause = min(2 * self._pause, _LAST_PAUSE)
        return True

    def repeat(self) -> None:
        """The last test draft was better than expected."""
        self._repeats = self._num_in_a_row < _MAX_IN_A_ROW

    def ended(self) -> None:
        """Drafting is worth it again."""
        self._pause, self._steps, self._repeats = _FIRST_PAUSE, 0, False
