"""Draft lengths beside the chosen one, in short turns, so that a recording holds their cost.

A governed engine settles on few lengths, and what steps of the others take can then only be
extrapolated from a recording.
"""

from __future__ import annotations

from collections.abc import Sequence

PERIOD = 250
"""Steps from the beginning of one turn to that of the next."""
TURN = 8
"""Steps of a turn: 3 % of all, which bounds what the turns can cost. A single step would measure
the change of the length, with the weights of a model displaced from the caches."""


class OtherLengths:
    """Counts steps and says which of them take another length. Not thread-safe."""

    def __init__(self, max_draft_length: int, allowed_lengths: Sequence[int] | None = None) -> None:
        """The allowed lengths take turns; where all are, 0, the powers of two and the longest."""
        self._lengths = allowed_lengths or _spread(max_draft_length)
        self._turn = -1
        self._step = 0
        self._length: int | None = None

    def next(self, latest: int) -> int | None:
        """Return the draft length of the next step, whose forerunner had `latest`; None to leave it
        to the policy."""
        place = self._step % PERIOD
        self._step += 1
        if place == PERIOD - TURN:
            self._length = self._other_than(latest)
        elif place == 0:
            self._length = None
        return self._length

    def _other_than(self, latest: int) -> int | None:
        """The next length in turn; where that is `latest`, the one after it."""
        for _ in self._lengths:
            self._turn = (self._turn + 1) % len(self._lengths)
            if self._lengths[self._turn] != latest:
                return self._lengths[self._turn]
        return None


def _spread(longest: int) -> Sequence[int]:
    powers = [1 << exponent for exponent in range(longest.bit_length())]
    return sorted({0, longest, *(length for length in powers if length <= longest)})
