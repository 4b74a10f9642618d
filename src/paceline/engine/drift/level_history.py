"""Which levels of acceptance lasted: what the present one is compared with.

Every shift is reported, but a new draft pays only where traffic stays as it is. So the present
level counts as lasting after `LASTING_S`, and what it costs is the difference from the last level
before it that lasted as long, not from what came in between. A short excursion changes nothing:
when acceptance returns from it to the lasting level, that level continues.

A level begins when its shift is found, and ends when the next one is. Times are of a clock that
stands still while the engine has nothing to do.
"""

from __future__ import annotations

import math

from paceline.engine.drift.category_watch import AcceptanceLevel
from paceline.engine.drift.shift_detector import MIN_SLACK

LASTING_S = 1800.0
"""As long as a draft for one task trains on a processor (docs/how-to/train-a-draft.md)."""
_ALIKE_ERRORS = 2.0
"""Standard errors of their difference up to which two levels are the same."""


class LevelHistory:
    """The lasting levels of one category.

    >>> high = AcceptanceLevel(0.64, 0.04, 400, (0.64,))
    >>> low = AcceptanceLevel(0.51, 0.04, 400, (0.51,))
    >>> levels = LevelHistory(0.0)
    >>> levels.shifted(9000.0, high, low)
    >>> levels.lasts(10000.0), levels.lasts(10800.0), levels.before.mean
    (False, True, 0.64)
    >>> levels.shifted(20000.0, low, high)  # an excursion of 1,000 s
    >>> levels.shifted(21000.0, high, low)
    >>> levels.lasts(21000.0), levels.before.mean
    (True, 0.64)
    """

    def __init__(self, at_s: float) -> None:
        self._began_s = at_s
        self._last: AcceptanceLevel | None = None
        self._last_but_one: AcceptanceLevel | None = None
        self._is_last_again = False
        """Whether the present level is the last lasting one, after an excursion."""

    @property
    def before(self) -> AcceptanceLevel | None:
        """The last level before the present one that lasted; None without one."""
        return self._last_but_one if self._is_last_again else self._last

    def lasts(self, at_s: float) -> bool:
        """Whether the present level lasts at this time, after another one that did."""
        is_long = self._is_last_again or at_s - self._began_s >= LASTING_S
        return is_long and self.before is not None

    def shifted(self, at_s: float, ended: AcceptanceLevel, now: AcceptanceLevel) -> None:
        """Add a shift that was found at `at_s`, from the level that ended to another one."""
        if self._is_last_again:
            self._last = ended
        elif at_s - self._began_s >= LASTING_S:
            self._last_but_one, self._last = self._last, ended
        self._began_s = at_s
        self._is_last_again = self._last is not None and _are_alike(self._last, now)


def _are_alike(one: AcceptanceLevel, other: AcceptanceLevel) -> bool:
    error = math.hypot(one.standard_error, other.standard_error)
    return abs(one.mean - other.mean) <= max(MIN_SLACK, _ALIKE_ERRORS * error)
