"""Acceptance by request, from the counts that a server sends with each answer.

The figures of the server's counters describe all clients and weight long answers more. These are of
the run's own requests, and of each of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.foundation.load.records import DraftCounts, RequestRecord


@dataclass(frozen=True, slots=True)
class Spread:
    """How a figure of single requests is distributed over them."""

    mean: float
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class RequestAcceptance:
    """Acceptance of the requests whose answers show it."""

    num_requests: int
    """Successful requests with counts."""
    drafted_tokens: int
    accepted_tokens: int
    num_drafts: int | None
    """None when the server does not send it with every answer."""
    acceptance_rate: float | None
    """Accepted / drafted tokens of all these requests together."""
    acceptance_length: float | None
    """1 + accepted tokens / drafts, the bonus token included."""
    rate_by_request: Spread | None
    """Of the acceptance rates of the requests that had drafts; each request counts once."""


def summarize_acceptance(records: Sequence[RequestRecord]) -> RequestAcceptance | None:
    """Acceptance of the successful requests; None if no answer shows it."""
    counts = [r.drafts for r in records if r.is_ok and r.drafts is not None]
    if not counts:
        return None
    drafted = sum(count.drafted_tokens for count in counts)
    accepted = sum(count.accepted_tokens for count in counts)
    num_drafts = _total_drafts(counts)
    return RequestAcceptance(
        num_requests=len(counts),
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        num_drafts=num_drafts,
        acceptance_rate=accepted / drafted if drafted else None,
        acceptance_length=1 + accepted / num_drafts if num_drafts else None,
        rate_by_request=_spread(
            [rate for count in counts if (rate := count.acceptance_rate) is not None]
        ),
    )


def _total_drafts(counts: Sequence[DraftCounts]) -> int | None:
    known = [count.num_drafts for count in counts if count.num_drafts is not None]
    return sum(known) if len(known) == len(counts) else None


def _spread(rates: Sequence[float]) -> Spread | None:
    if not rates:
        return None
    p10, p50, p90 = (float(p) for p in np.percentile(rates, (10, 50, 90)))
    return Spread(float(np.mean(rates)), p10, p50, p90)
