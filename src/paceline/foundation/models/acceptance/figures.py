"""Acceptance figures with 95 % intervals, and the paired difference of two drafts.

Tokens of one conversation resemble each other, also over its requests, so whole conversations are
drawn with replacement (a cluster bootstrap). The difference of two drafts is resampled with the
same conversations for both. The levels are expanded for few conversations
(`paceline.foundation.results.bootstrap`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.foundation.models.acceptance.blocks import DraftCounts
from paceline.foundation.models.acceptance.measure import PromptCounts
from paceline.foundation.models.values import DraftError, Sampling
from paceline.foundation.results.bootstrap import MIN_UNITS, NUM_RESAMPLES, expanded_levels

_SEED = 0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class AcceptanceFigures:
    """Acceptance at one draft length, or the difference between two drafts."""

    acceptance_rate: Estimate
    """Accepted / drafted tokens."""
    acceptance_length: Estimate
    """Tokens per step, the target's own included: 1 + accepted tokens / drafts."""
    accepted_per_position_fraction: tuple[Estimate, ...]
    """Accepted tokens at each position / drafts, (max_draft_length,)."""
    conditional_per_position: tuple[Estimate | None, ...]
    """Acceptance at each position, given that the position before was accepted; None where that
    never happens."""
    token_acceptance: Estimate
    """Mean over all tokens of the answers after the first: 1 - total variation for sampled
    requests, the fraction of equal tokens for greedy ones. A step of vLLM that drafts one token is
    accepted less often, because drafts begin after tokens that were hard to predict."""


def counts_under(counts: Sequence[PromptCounts], sampling: Sampling) -> list[PromptCounts]:
    """The counts of the answers that were sampled this way."""
    return [one for one in counts if one.sampling == sampling]


def estimate_figures(counts: Sequence[PromptCounts]) -> AcceptanceFigures:
    """The figures of one draft. DraftError if too few conversations were drafted for."""
    table = np.array(list(_by_conversation(counts).values()))
    values, resampled = _figures(table.sum(axis=0)[None]), _figures(_resample(table))
    return _collect(values, resampled, len(table))


def estimate_difference(
    candidate: Sequence[PromptCounts], present: Sequence[PromptCounts]
) -> AcceptanceFigures:
    """Candidate minus present. Both must be counted on the same answers."""
    new, old = _by_conversation(candidate), _by_conversation(present)
    if new.keys() != old.keys():
        raise ValueError("the two drafts were measured on different prompts")
    # Heads and draft models are measured in orders of their own.
    new_table, old_table = np.array(list(new.values())), np.array([old[key] for key in new])
    values = _figures(new_table.sum(axis=0)[None]) - _figures(old_table.sum(axis=0)[None])
    resampled = _figures(_resample(new_table)) - _figures(_resample(old_table))
    return _collect(values, resampled, len(new_table))


def _by_conversation(counts: Sequence[PromptCounts]) -> dict[str, list[float]]:
    """A row per conversation: drafts, token sum, tokens, accepted and reached at each position."""
    totals: dict[str, DraftCounts] = {}
    for one in counts:
        before = totals.get(one.conversation)
        totals[one.conversation] = one.counts if before is None else before + one.counts
    if len(totals) < MIN_UNITS:
        raise DraftError(
            f"{len(totals)} prompts of different conversations have answers of two or more tokens; "
            f"at least {MIN_UNITS} are needed for an interval. Give more prompts, or raise "
            "--max-tokens"
        )
    return {
        conversation: [
            c.num_drafts,
            c.token_acceptance_sum,
            c.num_tokens,
            *c.accepted_per_position,
            *c.reached_per_position,
        ]
        for conversation, c in totals.items()
    }


def _resample(table: Floats) -> Floats:
    """Sums over resampled rows, (NUM_RESAMPLES, num_columns); the same draws for equal sizes."""
    num_rows = len(table)
    draws = np.random.default_rng(_SEED).multinomial(
        num_rows, np.full(num_rows, 1 / num_rows), size=NUM_RESAMPLES
    )
    sums: Floats = draws @ table
    return sums


def _figures(sums: Floats) -> Floats:
    """Figures (num_rows, 3 + 2 * max_draft_length) from sums, columns as in `_by_conversation`."""
    drafts = sums[:, :1]
    accepted, reached = np.split(sums[:, 3:], 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_draft = accepted.sum(axis=1, keepdims=True) / drafts
        return np.concatenate(
            (
                per_draft / accepted.shape[1],
                1 + per_draft,
                sums[:, 1:2] / sums[:, 2:3],
                accepted / drafts,
                accepted / reached,
            ),
            axis=1,
        )


def _collect(values: Floats, resampled: Floats, num_conversations: int) -> AcceptanceFigures:
    levels = expanded_levels(num_conversations)
    max_draft_length = (values.shape[1] - 3) // 2
    estimates = [
        _estimate(value, column, levels)
        for value, column in zip(values[0], resampled.T, strict=True)
    ]
    rate, length, token, *rest = estimates
    per_position = rest[:max_draft_length]
    assert rate is not None
    assert length is not None
    assert token is not None
    return AcceptanceFigures(
        acceptance_rate=rate,
        acceptance_length=length,
        accepted_per_position_fraction=tuple(one for one in per_position if one is not None),
        conditional_per_position=tuple(rest[max_draft_length:]),
        token_acceptance=token,
    )


def _estimate(value: float, column: Floats, levels: tuple[float, float]) -> Estimate | None:
    known = column[np.isfinite(column)]
    if not (math.isfinite(value) and len(known)):
        return None
    low, high = np.quantile(known, levels)
    return Estimate(float(value), float(low), float(high))
