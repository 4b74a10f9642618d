"""What the governor is told and what it answers: one step, the load, one plan.

All values are frozen and validate themselves. Nothing here knows vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepSample:
    """One finished engine step.

    `drafted` and `accepted` have shape (num_judged,): one entry for each decoding request whose
    outcome says something about the drafter, 0 drafted included (the drafter offered nothing).
    Left out are drafts cut by a stop or by max_tokens, of a preempted request, or of one that may
    not be speculated; their tokens still count in `verified_draft_tokens`, for they cost time.
    """

    num_requests: int
    """Requests that were given tokens in this step, prefills included."""
    asked_draft_length: int
    """Draft length the drafter had been asked for when it made the drafts judged here."""
    drafted: tuple[int, ...]
    """Draft tokens verified per request, (num_judged,)."""
    accepted: tuple[int, ...]
    """Of these, accepted by the target, (num_judged,); never more than drafted."""
    verified_draft_tokens: int
    """All draft tokens the target computed in this step; at least the sum of `drafted`."""
    draft_length: int
    """Tokens proposed per request at the end of this step (for the next verification)."""
    prefill_tokens: int
    """Prompt tokens computed in this step beyond one per request."""
    context_tokens: int
    """Sum over the requests of tokens already in their KV cache."""
    duration_s: float | None
    """Time this step took, up to its results; None when it cannot be told."""
    is_clean: bool
    """True when it was a pure decode step, back to back with the one before: fit cost on these."""

    def __post_init__(self) -> None:
        if len(self.drafted) != len(self.accepted):
            raise ValueError(
                f"drafted has {len(self.drafted)} entries, accepted {len(self.accepted)}; "
                "both need one per judged request"
            )
        if any(not 0 <= a <= d for d, a in zip(self.drafted, self.accepted, strict=True)):
            raise ValueError(f"accepted {self.accepted} must lie in 0..drafted {self.drafted}")
        for name in (
            "num_requests",
            "asked_draft_length",
            "draft_length",
            "prefill_tokens",
            "context_tokens",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if self.verified_draft_tokens < sum(self.drafted):
            raise ValueError(
                f"verified_draft_tokens is {self.verified_draft_tokens}; "
                f"it must be at least the sum of drafted, {sum(self.drafted)}"
            )
        if self.duration_s is not None and not self.duration_s >= 0:
            raise ValueError(f"duration_s is {self.duration_s}; it must not be negative")

    @property
    def verified_tokens(self) -> int:
        """Tokens the target computed for decoding: one per request and its draft tokens."""
        return self.num_requests + self.verified_draft_tokens


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What the next step will work on, as the scheduler knows it when the plan is asked for."""

    num_requests: int
    context_tokens: int
    """Sum over the requests of tokens already in their KV cache."""
    prefill_tokens: int
    num_waiting: int
    max_draft_length: int
    """The ceiling in force now: the engine's, or a lower one set by an operator."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """How far to draft next, and why."""

    draft_length: int
    reason: str

    def __post_init__(self) -> None:
        if self.draft_length < 0:
            raise ValueError(f"draft_length is {self.draft_length}; it must be 0 (off) or more")
