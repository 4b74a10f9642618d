"""How long nothing is drafted before one draft shows whether that is still right.

    pause = 1 step, then 2, 4, 8, … 128

A look that finds nothing doubles the pause. It is short again when the load is another one: twice
or half as many requests, or another class among them."""

from __future__ import annotations

from collections.abc import Mapping

_FIRST_PAUSE, _LAST_PAUSE = 1, 128
"""Steps. Chosen empirically on recorded drafts."""


class UndraftedPause:
    """Counts the steps at length 0."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE
        self._steps = 0
        self._load: tuple[int, frozenset[str]] | None = None

    def is_over(self, num_requests: int, classes: Mapping[str, int]) -> bool:
        """Whether this step should draft. Counts the step."""
        load = (num_requests.bit_length(), frozenset(classes))
        if load != self._load:
            self._load, self._pause = load, _FIRST_PAUSE
        self._steps += 1
        if self._steps < self._pause:
            return False
        self._steps = 0
        self._pause = min(2 * self._pause, _LAST_PAUSE)
        return True

    def ended(self) -> None:
        """Drafting is worth it again."""
        self._pause, self._steps = _FIRST_PAUSE, 0
