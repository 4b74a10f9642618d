"""Sequential stopping: when the comparison looks at its data, and the error that each look spends.

A comparison may stop early, so it looks at its data several times. Each look may err with a part of
the total probability of error, and the parts add up to it. The sum bounds the error of the whole
comparison whatever the dependence between the looks (the union bound). Of the total, a look after
the fraction t of the planned rounds may have spent t ** 3: early looks stop for clear differences
only, and the last look keeps almost half. A comparison that ends before its planned rounds, because
time is up, spends all that is left. A look whose part is too small for an interval of that few
rounds is left out, and its part goes to the next one.

Reference: Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983;
the power family of spending functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.bench.compare.signed_rank import min_differences

LOOK_FRACTIONS = (0.4, 0.6, 0.8, 1.0)
"""Of the planned rounds. Chosen empirically: more looks leave less error for the last one."""
_EXPONENT = 3


@dataclass(frozen=True, slots=True)
class LookSchedule:
    """The looks of one comparison that plans `num_rounds` rounds."""

    num_rounds: int
    total_error: float
    """Bound on the probability that any interval of any look misses the true value."""

    def __post_init__(self) -> None:
        if self.num_rounds < 1:
            raise ValueError(f"num_rounds is {self.num_rounds}; it must be at least 1")
        if not 0 < self.total_error < 1:
            raise ValueError(f"total_error is {self.total_error}; it must be between 0 and 1")

    @property
    def look_rounds(self) -> tuple[int, ...]:
        """After which rounds the comparison looks, ascending; the last is `num_rounds`."""
        kept: list[int] = []
        for num_rounds in sorted({math.ceil(t * self.num_rounds) for t in LOOK_FRACTIONS}):
            part = self._spent(num_rounds) - (self._spent(kept[-1]) if kept else 0.0)
            if num_rounds >= min_differences(part) or num_rounds == self.num_rounds:
                kept.append(num_rounds)
        if len(kept) > 1 and kept[-1] < min_differences(self._left_after(kept[-2])):
            del kept[-2]
        return tuple(kept)

    def error_of_look(self, num_rounds: int, *, is_last: bool) -> float | None:
        """The error that a look after `num_rounds` may spend; None if no look is due there.

        `is_last` marks the look of a comparison that ends here for lack of time.
        """
        if not is_last and num_rounds not in self.look_rounds:
            return None
        spent = max((self._spent(n) for n in self.look_rounds if n < num_rounds), default=0.0)
        return (self.total_error if is_last else self._spent(num_rounds)) - spent

    def _left_after(self, num_rounds: int) -> float:
        return self.total_error - self._spent(num_rounds)

    def _spent(self, num_rounds: int) -> float:
        return self.total_error * float(num_rounds / self.num_rounds) ** _EXPONENT
