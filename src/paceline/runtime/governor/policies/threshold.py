"""A policy that follows the accepted fraction alone, with fixed thresholds.

    average <- keep * average + (1 - keep) * accepted / drafted      (weighted by drafted tokens)

Above 0.75 the length grows by one token, below 0.6 it shrinks by one, below 0.4 drafting stops.
States:

    on       the length moves by one per decision; a decision needs `_SETTLE_DRAFTED` new drafts
    off      nothing is drafted for a pause
    probing  `_PROBE_STEPS` steps at the shortest length, then nothing until their verdicts are in:
             at 0.6 and more drafting resumes there, otherwise the next pause is twice as long

What is drafted in one step is verified in the next, and under asynchronous scheduling its verdict
arrives one step later still. So drafts from before switching off are judged afterwards. Samples
arrive in order; therefore a sample without requested drafts marks the end of those leftovers, and,
after the last step of a probe, the end of the probe. Fewer than `_LEAST_VERDICTS` verdicts (a
drafter that seldom offers) do not switch drafting on; they are added to those of the next probe.

The rule as commonly published cannot leave the off state: while nothing is drafted, nothing is
measured. The probe adds the way back, after at most `_LAST_PAUSE` steps. The rule ignores cost: at
an acceptance of 0.9 it lengthens even at a load where verification is expensive. It is a baseline
for `goodput`.
"""

from __future__ import annotations

from paceline.runtime.governor.policy_definition import PolicyDefinition
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample

_LENGTHEN_ABOVE = 0.75
_SHORTEN_BELOW = 0.6
_OFF_BELOW = 0.4

# Chosen empirically: an average over about 64 draft tokens, a decision per 32.
_MEMORY_DRAFTED = 64.0
_SETTLE_DRAFTED = 32
_PROBE_STEPS = 4
_LEAST_VERDICTS = 3
_FIRST_PAUSE = 32
_LAST_PAUSE = 512


class ThresholdPolicy:
    """Lengthens, shortens, switches off and probes by the recent accepted fraction."""

    def __init__(self, max_draft_length: int) -> None:
        if max_draft_length < 1:
            raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
        self._max = max_draft_length
        self._length = max(max_draft_length // 2, 1)
        self._average: float | None = None
        self._fresh_drafted = 0
        self._pause = _FIRST_PAUSE
        self._steps_off = 0
        self._leftovers_judged = False
        self._probe_left = 0
        self._is_probing = False
        self._is_probe_judged = False
        self._probe_drafted = 0
        self._probe_accepted = 0

    def observe(self, sample: StepSample) -> None:
        """Update the average or the probe, and decide once enough drafts were judged."""
        if self._length == 0:
            self._observe_while_off(sample)
            return
        drafted, accepted = sum(sample.drafted), sum(sample.accepted)
        if drafted == 0:
            return
        fraction = accepted / drafted
        share = drafted / (_MEMORY_DRAFTED + drafted)
        before = fraction if self._average is None else self._average
        self._average = before + share * (fraction - before)
        self._fresh_drafted += drafted
        if self._fresh_drafted >= _SETTLE_DRAFTED:
            self._decide(self._average)

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The length in force, or a probe while off."""
        if load.max_draft_length == 0:
            return DraftPlan(0, "off: the ceiling is 0")
        if self._length > 0:
            shown = "no average yet" if self._average is None else f"average {self._average:.2f}"
            length = load.longest_allowed(self._length) or load.next_allowed(0) or 0
            return DraftPlan(length, f"threshold: {shown}")
        if self._probe_left == 0 and self._steps_off >= self._pause:
            self._steps_off = 0
            self._probe_left = _PROBE_STEPS
            self._is_probing = True
            self._is_probe_judged = False
        if self._probe_left > 0:
            self._probe_left -= 1
            shortest = load.next_allowed(0) or 0
            return DraftPlan(shortest, "threshold: probe while off", is_exploring=True)
        self._steps_off += 1
        return DraftPlan(0, f"threshold: off for {self._steps_off} of {self._pause} steps")

    def _observe_while_off(self, sample: StepSample) -> None:
        if sample.requested_draft_length == 0:
            self._leftovers_judged = True
            if self._is_probe_judged and self._probe_left == 0:
                self._end_probe()
        elif self._is_probing and self._leftovers_judged and sample.drafted:
            self._is_probe_judged = True
            self._probe_drafted += sum(sample.drafted)
            self._probe_accepted += sum(sample.accepted)

    def _decide(self, average: float) -> None:
        if average < _OFF_BELOW:
            self._length = 0
            self._pause = _FIRST_PAUSE
            self._steps_off = 0
            self._leftovers_judged = False
        elif average < _SHORTEN_BELOW:
            self._length = max(self._length - 1, 1)
        elif average > _LENGTHEN_ABOVE:
            self._length = min(self._length + 1, self._max)
        self._fresh_drafted = 0

    def _end_probe(self) -> None:
        self._is_probing = self._is_probe_judged = False
        self._pause = min(2 * self._pause, _LAST_PAUSE)
        if self._probe_drafted < _LEAST_VERDICTS:
            return
        fraction = self._probe_accepted / self._probe_drafted
        self._probe_drafted = self._probe_accepted = 0
        if fraction >= _SHORTEN_BELOW:
            self._length = 1
            self._average = fraction


POLICY = PolicyDefinition(
    name="threshold",
    summary="A length that follows the accepted fraction alone, by fixed thresholds.",
    create=ThresholdPolicy,
)
