"""Which draft length when nobody adapts: the same one always. `off` is a fixed length of 0."""

from __future__ import annotations

from paceline.governor.values import DraftPlan, EngineLoad, StepSample


class FixedPolicy:
    """Always the given length, or the ceiling where that is lower.

    The baseline for every adaptive policy, and what an operator's override becomes.
    """

    def __init__(self, draft_length: int) -> None:
        if draft_length < 0:
            raise ValueError(f"draft_length is {draft_length}; allowed is 0 (off) or more")
        self._draft_length = draft_length

    def observe(self, sample: StepSample) -> None:
        """Nothing to learn."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The fixed length, never more than the ceiling in force."""
        if self._draft_length > load.max_draft_length:
            return DraftPlan(load.max_draft_length, "fixed length, held by the ceiling")
        return DraftPlan(self._draft_length, "fixed length" if self._draft_length else "off")
