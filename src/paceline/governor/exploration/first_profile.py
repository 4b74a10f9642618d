"""The first steps of an engine: a few lengths, each until its duration is steady.

The first use of anything is slow, by how much depends on the machine, and another tenant may be
busy just then. A length whose first durations are too long would look too expensive from then on,
and not be used again. So each length is used until two successive steps took the same time, but for
`_MOST_STEPS` at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.governor.values import EngineLoad, StepSample

_STEADY = 1.2
"""Longer over shorter of two durations that count as the same. Chosen empirically."""
_MOST_STEPS = 7
"""At one length, with those that say nothing: the first one after a change of length, and those
whose results are under way."""


class FirstProfile:
    """Plans the first steps."""

    def __init__(self, lengths: Sequence[int]) -> None:
        """`lengths` in the order of their use."""
        self._left = list(reversed(lengths))
        self._used = 0  # the length that was last planned
        self._num_planned = 0  # of it
        self._last_s: float | None = None

    @property
    def is_finished(self) -> bool:
        return not self._left

    def observe(self, sample: StepSample) -> None:
        """End the length in use when the step took as long as the one before."""
        is_of_length = sample.draft_length == sample.requested_draft_length == self._used
        if not self._left or not is_of_length or not sample.is_clean or sample.prefill_tokens:
            return
        last_s, self._last_s = self._last_s, sample.duration_s
        if last_s and sample.duration_s and _ratio(last_s, sample.duration_s) <= _STEADY:
            self._end_length()

    def next_length(self, load: EngineLoad) -> int | None:
        """The length of the next step; None when the profile is finished."""
        if self._left and self._num_planned >= _MOST_STEPS:
            self._end_length()
        if not self._left:
            return None
        self._num_planned += 1
        self._used = load.longest_allowed(self._left[-1])
        return self._used

    def _end_length(self) -> None:
        self._left.pop()
        self._num_planned = 0
        self._last_s = None


def _ratio(a: float, b: float) -> float:
    return max(a, b) / min(a, b)
