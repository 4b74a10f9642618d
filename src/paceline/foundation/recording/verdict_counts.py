"""Count what became of one request's drafts, by position."""

from __future__ import annotations

from collections import Counter


class VerdictCounts:
    """The verdicts of one request.

    Position j was tried by a draft with at least j tokens whose first j - 1 were accepted; a draft
    says nothing about positions after its first rejection.

    >>> counts = VerdictCounts()
    >>> counts.add(3, 1)  # the second token was rejected, so the third was not tried
    >>> counts.add(2, 2)
    >>> counts.add(0, 0)  # the drafter had nothing to offer
    >>> counts.asked, counts.by_position()
    (3, ((2, 2), (2, 1)))
    """

    __slots__ = ("_drafts",)

    def __init__(self) -> None:
        self._drafts: Counter[tuple[int, int]] = Counter()

    def add(self, drafted: int, accepted: int) -> None:
        """Count one draft of `drafted` tokens, of which the first `accepted` were accepted."""
        self._drafts[drafted, accepted] += 1

    @property
    def asked(self) -> int:
        """Drafts counted, empty ones included."""
        return self._drafts.total()

    def by_position(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(tried, accepted), shape (longest draft tried,) each."""
        depth = max((min(d, a + 1) for d, a in self._drafts), default=0)
        tried, accepted = [0] * depth, [0] * depth
        for (num_drafted, num_accepted), count in self._drafts.items():
            for position in range(min(num_drafted, num_accepted + 1)):
                tried[position] += count
            for position in range(num_accepted):
                accepted[position] += count
        return tuple(tried), tuple(accepted)
