"""Policies that never adapt: `fixed` holds one draft length, `off` holds 0."""

from __future__ import annotations

from paceline.runtime.governor.policy_definition import Parameter, PolicyDefinition
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample


class FixedPolicy:
    """Always the given length, or the longest allowed one where that is shorter.

    The baseline for every adaptive policy, and what an operator's override becomes.
    """

    def __init__(self, draft_length: int) -> None:
        if draft_length < 0:
            raise ValueError(f"draft_length is {draft_length}; it must be 0 (off) or more")
        self._draft_length = draft_length

    def observe(self, sample: StepSample) -> None:
        """Ignore the sample."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The fixed length, never more than the ceiling in force, and an allowed one."""
        length = load.longest_allowed(self._draft_length)
        if self._draft_length > load.max_draft_length:
            return DraftPlan(length, "fixed length, limited by the ceiling")
        if length < self._draft_length:
            return DraftPlan(length, f"fixed length: {self._draft_length} is not allowed")
        return DraftPlan(length, "fixed length" if length else "off")


def _create_fixed(max_draft_length: int, *, draft_length: int | None = None) -> FixedPolicy:
    if draft_length is None:
        return FixedPolicy(max_draft_length)
    if not 0 <= draft_length <= max_draft_length:
        raise ValueError(
            f"draft_length is {draft_length}; it must be from 0 (off) to {max_draft_length}, "
            "the engine's num_speculative_tokens"
        )
    return FixedPolicy(draft_length)


FIXED = PolicyDefinition(
    name="fixed",
    summary="The same draft length in every step.",
    create=_create_fixed,
    parameters=(
        Parameter(
            "draft_length",
            int,
            "Draft tokens per request and step; without it the engine's num_speculative_tokens.",
            lowest=0,
        ),
    ),
)

OFF = PolicyDefinition(
    name="off",
    summary="No drafting.",
    create=lambda max_draft_length: FixedPolicy(0),
)
