"""The acceptance of a request's text, which does not depend on the draft length.

    acceptance = sum of w_s v_s / sum of w_s

over the steps s that were asked for a draft, but the first: v_s is 1 where the first draft token
was offered and accepted, else 0; w_s are the tokens that the asked step before it yielded.

Why not accepted / drafted: it falls when drafts get longer, as later positions are reached less
often. Why not the plain mean of v_s: a step that yields many tokens passes over easy text, so long
drafts begin at hard places more often than short ones, and a request with easy and hard passages
would seem to change whenever the governor changes the length. With the weights, each passage counts
by its tokens: the yield of the step before is known before v_s is, and resembles that of the
passage. So the mean is that over the text, up to the edges of its passages.

The verdicts by position are kept too: a position counts as tried where it was requested and all
before it were accepted; a drafter that offered nothing there has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from paceline.foundation.recording.verdict_counts import VerdictCounts


@dataclass(slots=True)
class AcceptanceSums:
    """Sums over the verdicts of one request, or of several."""

    weight: float = 0.0
    """Tokens of text."""
    accepted_weight: float = 0.0
    num_verdicts: int = 0
    tried: list[int] = field(default_factory=list)
    """By draft position, from the first."""
    accepted: list[int] = field(default_factory=list)

    @property
    def acceptance(self) -> float:
        """0 to 1; needs a weight above 0."""
        return self.accepted_weight / self.weight

    def add(self, other: AcceptanceSums) -> None:
        """Add the sums of another request."""
        self.weight += other.weight
        self.accepted_weight += other.accepted_weight
        self.num_verdicts += other.num_verdicts
        self.tried = _added(self.tried, other.tried)
        self.accepted = _added(self.accepted, other.accepted)

    def hazards(self) -> tuple[float, ...]:
        """By position the fraction accepted of those tried, up to the deepest that was tried."""
        return tuple(
            accepted / tried
            for tried, accepted in zip(self.tried, self.accepted, strict=True)
            if tried
        )


class RequestVerdicts:
    """The verdicts of one request, in the order of its steps.

    >>> request = RequestVerdicts()
    >>> for requested, accepted in ((2, 2), (2, 0), (2, 1)):
    ...     request.add(requested, accepted)
    >>> sums = request.sums()  # weights 3 and 1, of which the second accepted
    >>> sums.weight, sums.accepted_weight, sums.tried, sums.accepted
    (4.0, 1.0, [3, 2], [2, 1])
    """

    __slots__ = ("_accepted_weight", "_counts", "_num_verdicts", "_weight", "_yielded")

    def __init__(self) -> None:
        self._counts = VerdictCounts()
        self._weight = self._accepted_weight = 0
        self._num_verdicts = 0
        self._yielded = 0
        """Tokens of the last step that was asked for a draft; 0 before it."""

    def add(self, requested: int, accepted: int) -> None:
        """Add a step of which `requested` draft tokens were requested and `accepted` accepted."""
        if requested < 1:
            return
        accepted = min(accepted, requested)
        if self._yielded:
            self._weight += self._yielded
            self._num_verdicts += 1
            if accepted:
                self._accepted_weight += self._yielded
        self._yielded = accepted + 1
        self._counts.add(requested, accepted)

    def sums(self) -> AcceptanceSums:
        """The sums so far."""
        tried, accepted = self._counts.by_position()
        return AcceptanceSums(
            float(self._weight),
            float(self._accepted_weight),
            self._num_verdicts,
            list(tried),
            list(accepted),
        )


def _added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]
