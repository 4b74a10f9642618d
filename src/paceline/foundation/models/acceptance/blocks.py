"""What vLLM counts while it drafts for a known text: the expected number of drafts, and of accepted
tokens by position.

A step drafts `max_draft_length` tokens from some position of the answer. If its first j tokens are
accepted, the target adds one token, and the next draft begins j + 1 positions later. So drafts
begin more often after tokens that are hard to predict, and the mean over all positions overstates
what is served.

The text is a sample of the target, and speculation does not change what the target samples. Given
the text, the token at position t was accepted with probability

    realised[t] = min(1, draft_probs[token] / target_probs[token])

if a draft reached it, independently of the other positions. One pass over the positions therefore
gives the distribution of where drafts begin, without drawing anything. The last factor of each
accepted token is taken as its mean over the target's tokens, expected[t] = sum(min(target_probs,
draft_probs)), which has the same mean and less variance. A draft model's are the same wherever the
draft began; those of a head are not, so both are given by where it began.

The first token of an answer is never drafted: it comes with the prompt. A draft that begins before
the end of an answer counts with all its tokens, also those past the end, as in vLLM 0.32
(`v1/core/sched/scheduler.py`, `update_from_output`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftCounts:
    """Expected counters of one answer, or their sum over several."""

    num_drafts: float
    accepted_per_position: tuple[float, ...]
    """Accepted tokens at each position of a draft, (max_draft_length,)."""
    reached_per_position: tuple[float, ...]
    """Drafts of which every token before the position was accepted, (max_draft_length,)."""
    token_acceptance_sum: float
    """Sum of `expected` over the tokens of the answer after the first."""
    num_tokens: int
    """Tokens in that sum."""

    def __add__(self, other: DraftCounts) -> DraftCounts:
        return DraftCounts(
            self.num_drafts + other.num_drafts,
            _add(self.accepted_per_position, other.accepted_per_position),
            _add(self.reached_per_position, other.reached_per_position),
            self.token_acceptance_sum + other.token_acceptance_sum,
            self.num_tokens + other.num_tokens,
        )


def count_drafts(
    realised: Sequence[Sequence[float]],
    expected: Sequence[Sequence[float]],
    *,
    num_tokens: int,
    max_draft_length: int,
) -> DraftCounts:
    """The counters of an answer of `num_tokens` tokens.

    Entry [t][j] is of the token at position t + j in a draft that begins at position t, which may
    be after the end, where the target's continuation is known. Entry 0 is ignored.
    """
    accepted = [0.0] * max_draft_length
    reaching = [0.0] * max_draft_length
    begins = [0.0] * (num_tokens + max_draft_length + 1)
    """Probability that a draft begins at each position."""
    begins[1] = 1.0
    for start in range(1, num_tokens):
        reached = begins[start]
        for offset in range(min(max_draft_length, len(realised[start]))):
            reaching[offset] += reached
            accepted[offset] += reached * expected[start][offset]
            continued = reached * realised[start][offset]
            begins[start + offset + 1] += reached - continued
            reached = continued
        begins[start + max_draft_length + 1] += reached
    return DraftCounts(
        num_drafts=math.fsum(begins[1:num_tokens]),
        accepted_per_position=tuple(accepted),
        reached_per_position=tuple(reaching),
        token_acceptance_sum=math.fsum(row[0] for row in expected[1:num_tokens]),
        num_tokens=max(0, num_tokens - 1),
    )


def by_start(by_token: Sequence[float], max_draft_length: int) -> list[Sequence[float]]:
    """The entries for `count_drafts` where acceptance does not depend on where the draft began."""
    return [by_token[start : start + max_draft_length] for start in range(len(by_token))]


def _add(left: Sequence[float], right: Sequence[float]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))
