"""What a draft length gains: expected tokens per step over the time of the step.

With each draft token accepted with probability a, given that all before it were, a step at draft
length K yields

    E = 1 + a + a² + … + a^K = (1 - a^(K+1)) / (1 - a)

tokens per request, the target's own token included (Leviathan et al., arXiv 2211.17192). Where the
drafter proposes in a fraction f of the steps only (n-gram lookup), a step yields 1 + f * (E - 1)
tokens and the drafts to verify shrink alike. Assumes that a is the same at every position and for
every request; measured hazards fall with the position, so long drafts look better than they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.capacity.step_time import StepTime


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How often drafts are right."""

    per_token: float
    """Probability that a draft token is accepted, given that those before it were."""
    proposed_fraction: float = 1.0
    """Of the steps in which the drafter proposes anything."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.per_token < 1.0:
            raise ValueError(f"acceptance is {self.per_token}; it must be at least 0 and below 1")
        if not 0.0 <= self.proposed_fraction <= 1.0:
            raise ValueError(
                f"proposed_fraction is {self.proposed_fraction}; it must be from 0 to 1"
            )


NO_ACCEPTANCE = Acceptance(0.0)
"""Drafts that are never right."""


@dataclass(frozen=True, slots=True)
class DraftLengthGain:
    """One draft length at one load."""

    draft_length: int
    tokens_per_step: float
    """Per request."""
    step_s: float
    tokens_per_s: float
    """Of all requests together."""
    gain: float
    """Rate over the rate without speculation, minus 1."""


def tokens_per_step(acceptance: Acceptance, draft_length: int) -> float:
    """Expected tokens of one request in one step.

    >>> tokens_per_step(Acceptance(0.5), 3)
    1.875
    """
    a = acceptance.per_token
    drafted = (1.0 - a ** (draft_length + 1)) / (1.0 - a) - 1.0
    return 1.0 + acceptance.proposed_fraction * drafted


def gains(
    step_time: StepTime,
    acceptance: Acceptance,
    *,
    requests: float,
    context_tokens: float,
    draft_lengths: Sequence[int],
) -> list[DraftLengthGain]:
    """Return the gain of each draft length at a load, in the order given.

    A step in which the drafter proposes nothing is priced at draft length 0.
    """
    plain_s = step_time.decode_s(requests, context_tokens)
    rows = []
    for length in draft_lengths:
        share = acceptance.proposed_fraction if length else 0.0
        drafted_s = step_time.decode_s(requests, context_tokens, length)
        step_s = share * drafted_s + (1.0 - share) * plain_s
        tokens = tokens_per_step(acceptance, length)
        rows.append(
            DraftLengthGain(
                length, tokens, step_s, requests * tokens / step_s, tokens * plain_s / step_s - 1.0
            )
        )
    return rows


def best_length(rows: Sequence[DraftLengthGain]) -> DraftLengthGain:
    """Return the row with the highest rate; of equal ones the shortest draft."""
    return max(rows, key=lambda row: (row.tokens_per_s, -row.draft_length))
