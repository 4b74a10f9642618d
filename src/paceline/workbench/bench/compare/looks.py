"""Sequential stopping: when the comparison looks at its data, and the error that each look spends.

A comparison may stop early, so it looks at its data several times. Each look may err with a part of
the total probability of error, and the parts add up to it. The sum bounds the error of the whole
comparison whatever the dependence between the looks (the union bound).

The first look comes after as few rounds as a fifth of the total error allows: ten at 99 %. It finds
a difference that is large beside the noise within a minute. The others follow after 1.6 times as
many rounds each, up to the planned rounds, and share the rest of the error equally: the time until
a difference is found is proportional to 1 / difference ** 2, so equal factors serve differences of
all sizes alike. A comparison that ends before its planned rounds, because time is up, spends all
that is left. A look whose part is too small for an interval of that few rounds is left out, and its
part goes to the next one.

Reference: Pocock, "Group sequential methods in the design and analysis of clinical trials",
Biometrika 1977, for equal parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.foundation.results.signed_rank import min_differences

_FIRST_PART = 0.2
"""Of the total error."""
_RATIO = 1.6
"""Between the rounds of successive looks. Chosen empirically: on the replayed noise of
docs/experiments/comparisons.md, ratios from 1.3 to 1.8 find 3 % after 2.1 to 2.7 minutes."""
_NEAREST = 1.25
"""A look that close to the last one is left out."""


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
        return tuple(self._parts)

    def error_of_look(self, num_rounds: int, *, is_last: bool) -> float | None:
        """The error that a look after `num_rounds` may spend; None if no look is due there.

        `is_last` marks the look of a comparison that ends here for lack of time.
        """
        if not is_last:
            return self._parts.get(num_rounds)
        return self.total_error - sum(
            part for rounds, part in self._parts.items() if rounds < num_rounds
        )

    @property
    def _parts(self) -> dict[int, float]:
        """The error of each look, by its rounds."""
        first = min_differences(_FIRST_PART * self.total_error)
        candidates = []
        rounds = float(first)
        while rounds * _NEAREST < self.num_rounds:
            candidates.append(math.ceil(rounds))
            rounds *= _RATIO
        shares = {}
        if candidates:
            rest = (1 - _FIRST_PART) / len(candidates)
            shares = {n: rest if n != first else _FIRST_PART for n in candidates}
        parts: dict[int, float] = {}
        spent = carried = 0.0
        for n, share in shares.items():
            part = share * self.total_error + carried
            if n < min_differences(part):
                carried = part
                continue
            parts[n], carried = part, 0.0
            spent += part
        parts[self.num_rounds] = self.total_error - spent
        return parts
