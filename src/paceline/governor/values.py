"""What the governor is told and what it answers: one step, the load, one plan.

All values are frozen and validate themselves. Nothing here knows vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepSample:
    """One finished engine step.

    `drafted` and `accepted` have shape (num_verified,): one entry for each request whose draft
    tokens were verified in this step and whose outcome says something about acceptance (drafts
    padded for a grammar, cut by a stop or by max_tokens, or of a stale request are left out).
    """

    num_requests: int
    """Requests that were given tokens in this step, prefills included."""
    drafted: tuple[int, ...]
    """Draft tokens verified per request, (num_verified,)."""
    accepted: tuple[int, ...]
    """Of these, accepted by the target, (num_verified,); never more than drafted."""
    draft_length: int
    """Tokens proposed per request at the end of this step (for the next verification)."""
    prefill_tokens: int
    """Prompt tokens computed in this step."""
    context_tokens: int
    """Sum over the requests of tokens already in their KV cache."""
    duration_s: float | None
    """From this step's start to its results; None when it cannot be told."""
    is_clean: bool
    """True when it was a pure decode step, back to back with the one before: fit cost on these."""

    def __post_init__(self) -> None:
        if len(self.drafted) != len(self.accepted):
            raise ValueError(
                f"drafted has {len(self.drafted)} entries, accepted {len(self.accepted)}; "
                "both need one per verified request"
            )
        if any(not 0 <= a <= d for d, a in zip(self.drafted, self.accepted, strict=True)):
            raise ValueError(f"accepted {self.accepted} must lie in 0..drafted {self.drafted}")
        for name in ("num_requests", "draft_length", "prefill_tokens", "context_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if self.duration_s is not None and not self.duration_s >= 0:
            raise ValueError(f"duration_s is {self.duration_s}; it must not be negative")

    @property
    def verified_tokens(self) -> int:
        """Tokens the target computed for decoding: one per request and its draft tokens."""
        return self.num_requests + sum(self.drafted)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What the next step will work on, as the scheduler knows it when the plan is asked for."""

    num_requests: int
    context_tokens: int
    prefill_tokens: int
    num_waiting: int


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """How far to draft next, and why."""

    draft_length: int
    reason: str

    def __post_init__(self) -> None:
        if self.draft_length < 0:
            raise ValueError(f"draft_length is {self.draft_length}; it must be 0 (off) or more")
