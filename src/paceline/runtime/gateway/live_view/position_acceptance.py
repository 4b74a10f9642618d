"""Acceptance by draft position over the last seconds, to explain a change of the draft length.

Pure. The counters of the governor say how many drafts were accepted up to each position. Of the
drafts that were accepted up to position i - 1, those accepted up to i give the acceptance of
position i, as long as the drafts were that long.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass

from paceline.runtime.gateway.live_view.values import GovernorView

_RECENT_SNAPSHOTS = 3
_KEPT_SNAPSHOTS = 30
"""The last three seconds are compared with up to half a minute before them. Chosen empirically: a
governor that measures a fall answers within a second or two."""
_MIN_TRIALS = 30
"""Drafts that reached a position, in each of the two times. Chosen empirically: the standard error
of an acceptance is then at most 0.09."""
_MIN_CHANGE = 0.1
"""A smaller difference is not named as a cause."""


@dataclass(frozen=True, slots=True)
class AcceptanceChange:
    """The acceptance of one position before and after."""

    position: int
    """The first is 1."""
    before: float
    after: float

    def __str__(self) -> str:
        verb = "fell" if self.after < self.before else "rose"
        return f"acceptance of position {self.position} {verb} to {self.after:.2f}"


@dataclass(frozen=True, slots=True)
class _Counts:
    """At one snapshot."""

    length: int
    """The shortest draft length since the previous snapshot."""
    cumulative: tuple[int, ...]
    """Drafts, and drafts accepted up to position 1, 2, …"""


class PositionAcceptance:
    """The counts of one replica over the last snapshots."""

    def __init__(self) -> None:
        self._kept: deque[_Counts] = deque(maxlen=_KEPT_SNAPSHOTS)
        self._last_length = 0

    def add(self, governor: GovernorView) -> None:
        """Add the next snapshot. Counters that fell mean a new engine: what was kept is dropped."""
        length = governor.settled_length or 0
        counts = (governor.num_drafts, *governor.accepted_per_position)
        if self._kept and counts[0] < self._kept[-1].cumulative[0]:
            self._kept.clear()
        shortest = min(length, self._last_length) if self._kept else length
        self._kept.append(_Counts(shortest, counts))
        self._last_length = length

    def largest_change(self, *, falls: bool) -> AcceptanceChange | None:
        """The position whose acceptance fell (or rose) the most; None where none did clearly."""
        kept = list(self._kept)
        recent, earlier = kept[-_RECENT_SNAPSHOTS - 1 :], kept[:-_RECENT_SNAPSHOTS]
        if len(recent) <= _RECENT_SNAPSHOTS or len(earlier) < 2:
            return None
        before, after = _acceptance(earlier), _acceptance(recent)
        changes = [
            AcceptanceChange(position, before[position], after[position])
            for position in before.keys() & after.keys()
            if abs(before[position] - after[position]) >= _MIN_CHANGE
            and (after[position] < before[position]) is falls
        ]
        return max(changes, key=lambda change: abs(change.before - change.after), default=None)


def _acceptance(snapshots: list[_Counts]) -> dict[int, float]:
    """By position, over the intervals in which all drafts were long enough for it."""
    reached: dict[int, int] = {}
    accepted: dict[int, int] = {}
    for start, end in itertools.pairwise(snapshots):
        longest = min(end.length, len(end.cumulative) - 1, len(start.cumulative) - 1)
        for position in range(1, longest + 1):
            trials = end.cumulative[position - 1] - start.cumulative[position - 1]
            reached[position] = reached.get(position, 0) + trials
            successes = end.cumulative[position] - start.cumulative[position]
            accepted[position] = accepted.get(position, 0) + successes
    return {
        position: accepted[position] / trials
        for position, trials in reached.items()
        if trials >= _MIN_TRIALS
    }
