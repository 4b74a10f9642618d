"""What do the times of a run come to?

Values and percentiles; nothing here waits or measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from benchmarks.gateway.sse_client import Exchange

PERCENTILES = (50, 90, 99)


def percentiles(values: Sequence[float], which: Iterable[float] = PERCENTILES) -> dict[str, float]:
    """By name ("p50"), linearly interpolated; empty for no values."""
    if not len(values):
        return {}
    ranks = list(which)
    found = np.percentile(values, ranks)
    return {f"p{rank:g}": round(float(value), 3) for rank, value in zip(ranks, found, strict=True)}


def gaps_ms(exchange: Exchange, from_s: float) -> list[float]:
    """Between one read that brought events and the next, of those read since `from_s`.

    The first and the last gap are left out: servers differ in whether they send the role, the first
    token, the last token and the finish reason together.
    """
    inner = exchange.arrivals_s[1 : len(exchange.arrivals_s) - 1]
    return [1000 * (later - earlier) for earlier, later in pairwise(inner) if later >= from_s]


def streams_summary(exchanges: Sequence[Exchange], from_s: float) -> dict[str, Any]:
    """Of one run of streams: what failed, TTFT (each of them too) and gaps, all since `from_s`."""
    begun = [one for one in exchanges if one.sent_s >= from_s]
    told = [one for one in begun if one.status == 200 and one.arrivals_s]
    ttfts = [1000 * (one.arrivals_s[0] - one.sent_s) for one in told]
    gaps = [gap for one in exchanges for gap in gaps_ms(one, from_s)]
    return {
        "num_begun": len(begun),
        "num_with_first_token": len(told),
        "num_failed": sum(not one.is_complete and not one.is_cut for one in exchanges),
        "num_gaps": len(gaps),
        "ttft_ms": percentiles(ttfts),
        "inter_chunk_ms": percentiles(gaps, (*PERCENTILES, 99.9)),
        "ttfts_ms": [round(value, 3) for value in ttfts],
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median over the repeats, lowest, highest."""
    return {
        "median": round(median(values), 3),
        "lowest": round(min(values), 3),
        "highest": round(max(values), 3),
    }


def added(
    runs: Sequence[Mapping[str, Any]], arm: str, baseline: str, measure: str, percentile: str
) -> dict[str, float]:
    """What the arm adds at this percentile to the baseline of the same repeat."""
    by_repeat: dict[int, dict[str, float]] = {}
    for run in runs:
        by_repeat.setdefault(run["repeat"], {})[run["arm"]] = run[measure][percentile]
    return spread([each[arm] - each[baseline] for each in by_repeat.values() if arm in each])


@dataclass(frozen=True, slots=True)
class Promise:
    """What a request must keep to count as good."""

    ttft_s: float
    total_s: float

    def is_kept(self, exchange: Exchange) -> bool:
        """Counted from when it was to be sent."""
        return (
            exchange.status == 200
            and exchange.is_complete
            and exchange.arrivals_s[0] - exchange.due_s <= self.ttft_s
            and exchange.ended_s - exchange.due_s <= self.total_s
        )


_WAITED = b"has waited too long"


def arrivals_summary(
    exchanges: Sequence[Exchange], promise: Promise, duration_s: float
) -> dict[str, Any]:
    """Of one run of arrivals: goodput, what became of the others, and how fast they were told."""
    refused = [one for one in exchanges if one.status in (429, 503)]
    at_once = [one for one in refused if _WAITED not in one.body]
    whole = [one for one in exchanges if one.status == 200 and one.is_complete]
    return {
        "num_requests": len(exchanges),
        "offered_per_s": round(len(exchanges) / duration_s, 3),
        "num_whole": len(whole),
        "num_good": sum(promise.is_kept(one) for one in exchanges),
        "goodput_per_s": round(sum(promise.is_kept(one) for one in exchanges) / duration_s, 3),
        "num_refused_at_once": len(at_once),
        "num_refused_after_waiting": len(refused) - len(at_once),
        "num_other": len(exchanges) - len(whole) - len(refused),
        "refusal_ms": percentiles(
            [1000 * (one.ended_s - one.sent_s) for one in at_once], (*PERCENTILES, 100)
        ),
        "ttft_ms": percentiles([1000 * (one.arrivals_s[0] - one.due_s) for one in whole]),
        "total_ms": percentiles([1000 * (one.ended_s - one.due_s) for one in whole]),
        "sent_late_ms": percentiles([1000 * (one.sent_s - one.due_s) for one in exchanges]),
    }
