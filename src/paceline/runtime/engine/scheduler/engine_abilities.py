"""What one engine and its drafter can do, found out when the engine starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineAbilities:
    """The facts about an engine that its governor depends on. They do not change while it runs."""

    max_draft_length: int
    """The engine's num_speculative_tokens."""
    method: str
    """vLLM's name of the drafting method."""
    allowed_lengths: tuple[int, ...] | None = None
    """See `EngineLoad.allowed_lengths`; a plan with another length is shortened to the next one."""
    always_drafts_maximum: bool = False
    """The drafter drafts the maximum, and the scheduler removes the surplus."""
    drafter_rests: bool = False
    """The draft model is skipped at length 0 and backfills its KV cache when drafting resumes."""
    reports_confidences: bool = False
    """All workers can report confidences, and end drafts early (`worker.early_stop`)."""
    draws_drafts: bool = False
    """The drafter draws the draft tokens of sampled requests, and does not take the likeliest."""
    sampler_fault: str | None = None
    """Why sampled requests must not be speculated; None when they may."""
