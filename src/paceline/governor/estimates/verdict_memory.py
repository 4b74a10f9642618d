"""Counts of verdicts by position, fading with a memory of their own.

Per position, of one drafter:

    accept_j = (strength * expected_j + accepted_j) / (strength + judged_j)

`expected` is the estimate of a longer memory, shifted by as much as this memory departs from it one
position earlier (as a ratio of odds). So a change that shows at the first position also shifts the
positions that no draft has reached since. The longest memory expects at each position the
acceptance of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_ACCEPT_MEAN = 0.6
"""A middling drafter; four verdicts outweigh it."""
_FIRST_STRENGTH = 2.0
_STRENGTH = 4.0
"""Verdicts that the estimate of the longer memory weighs. Both chosen empirically."""
_LEAST_CHANCE = 0.01
"""Lower bound of a chance in a likelihood: one verdict never decides alone."""
_MAX_ODDS_RATIO = 20.0


class VerdictMemory:
    """Averages over about `verdicts` verdicts at each of `num_positions` positions."""

    def __init__(self, num_positions: int, verdicts: float) -> None:
        self._verdicts = verdicts
        self._accepted = [0.0] * num_positions
        self.judged = [0.0] * num_positions
        """Verdicts remembered, shape (num_positions,). Read only."""
        self.accept = [0.0] * num_positions
        """P(accepted | offered, the one before accepted), shape (num_positions,). Read only."""

    def learn(
        self, judged: Sequence[float], accepted: Sequence[float], num_verdicts: float
    ) -> None:
        """Add counts by position, and forget older ones as `num_verdicts` new verdicts displace
        them."""
        keep = math.exp(-num_verdicts / self._verdicts)
        self.judged = [keep * old + new for old, new in zip(self.judged, judged, strict=True)]
        self._accepted = [
            keep * old + new for old, new in zip(self._accepted, accepted, strict=True)
        ]

    def forget(self, keep: float) -> None:
        """Keep this fraction of all counts."""
        self.judged = [keep * count for count in self.judged]
        self._accepted = [keep * count for count in self._accepted]

    def restart_from(self, other: VerdictMemory) -> None:
        """Take over the counts of another memory, and nothing older."""
        self.judged = list(other.judged)
        self._accepted = list(other._accepted)

    def log_likelihood(self, judged: Sequence[float], accepted: Sequence[float]) -> float:
        """The logarithm of the chance that this memory gives to counts by position."""
        total = 0.0
        for num_judged, num_accepted, accept in zip(judged, accepted, self.accept, strict=True):
            if num_judged == 0.0:
                break
            total += num_accepted * math.log(max(accept, _LEAST_CHANCE))
            total += (num_judged - num_accepted) * math.log(max(1.0 - accept, _LEAST_CHANCE))
        return total

    def refresh(self, longer: VerdictMemory | None) -> None:
        """Recompute `accept` from the counts and the next longer memory; None for the longest."""
        accept, odds_ratio = _ACCEPT_MEAN, 1.0
        strength = _FIRST_STRENGTH if longer is None else _STRENGTH
        for position, judged in enumerate(self.judged):
            expected = accept
            if longer is not None:
                before = longer.accept[position]
                expected = before * odds_ratio / (1.0 - before + before * odds_ratio)
            accept = (strength * expected + self._accepted[position]) / (strength + judged)
            if longer is not None:
                odds_ratio = _odds_ratio(accept, before)
            self.accept[position] = accept


def _odds_ratio(accept: float, other: float) -> float:
    above, below = accept * (1.0 - other), other * (1.0 - accept)
    if above >= _MAX_ODDS_RATIO * below:
        return _MAX_ODDS_RATIO
    return max(above / below, 1.0 / _MAX_ODDS_RATIO)
