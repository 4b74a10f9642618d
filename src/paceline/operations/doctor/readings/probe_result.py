"""`ProbeResult`: what the requests of `--probe` showed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """Output tokens/s under one setting over those under another."""

    value: float
    low: float
    """Lower end of the 95 % interval of the mean over the pairs of blocks."""
    high: float
    num_pairs: int
    concurrency: int
    tokens_per_s: float
    """Under the first setting, the mean over the blocks."""
    how: str = "blocks of the same prompts with drafts and without, in turn"
    is_estimated: bool = False
    """Whether it was computed from step times, because the server could not be switched."""
    step_ms: float | None = None
    """Where it was: a step with drafts."""
    undrafted_step_ms: tuple[float, float] | None = None
    """And bounds of one without."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What was sent and measured."""

    num_requests: int
    num_failed: int
    model: str
    workload: str
    """Of the prompts, or the name of the file with a user's own ones."""
    temperature: float
    gain: MeasuredGain | None
    """None if it could not be measured; `gain_reason` says why."""
    gain_reason: str | None
    excess_tokens: tuple[tuple[str, int, int], ...] = ()
    """Streams whose text has more tokens than their usage: request, streamed, counted."""
    num_streams_counted: int = 0
    """Streams whose tokens could be compared with their usage."""
    is_disturbed: bool = False
    """Another program or an operator set a governor meanwhile."""
    concurrency: int | None = None
    """Most requests in flight."""
