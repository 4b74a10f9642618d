"""How long a shift has lasted, and the level before it: a draft is not trained for a minute.

A shift is reported at once, but a new draft pays only if both levels last: traffic that changes
every few minutes has no present kind to train for, and the first minutes of a server are no level
to return to. So what counts is the shorter of the two.
"""

from __future__ import annotations

_MOST_GAP_S = 60.0
"""A longer time without a request counts as this: an idle night is no evidence of a level."""


class Lasting:
    """The seconds of one category, idle ones left out.

    >>> level = Lasting()
    >>> for at_s in range(0, 100, 10):
    ...     level.add(float(at_s), shifted=False, remains=False)
    >>> level.add(100.0, shifted=True, remains=True)
    >>> level.add(130.0, shifted=False, remains=True)
    >>> level.seconds  # 30 since the shift; 100 before
    30.0
    >>> level.add(140.0, shifted=False, remains=False)  # acceptance came back
    >>> level.seconds
    0.0
    """

    def __init__(self) -> None:
        self._at_s: float | None = None
        self._level_s = 0.0
        self._before_s = 0.0
        self._shift_s = 0.0

    @property
    def seconds(self) -> float:
        """Since the shift, or of the level before it if that is less; 0 unless the shift lasts."""
        return min(self._before_s, self._shift_s)

    def add(self, at_s: float, *, shifted: bool, remains: bool) -> None:
        """Add a request that ended at `at_s`, of any one clock.

        `shifted`: it completed the evidence of a shift. `remains`: the last shift is still there.
        """
        since_s = 0.0 if self._at_s is None else min(max(at_s - self._at_s, 0.0), _MOST_GAP_S)
        self._at_s = at_s
        self._level_s += since_s
        self._shift_s = self._shift_s + since_s if remains else 0.0
        if shifted:
            self._before_s, self._level_s, self._shift_s = self._level_s, 0.0, 0.0
