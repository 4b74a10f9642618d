"""The figures of a run from its exchanges: percentiles, gaps, goodput. Pure functions."""

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
    """Linearly interpolated percentiles by name ("p50"); empty for no values."""
    if not len(values):
        return {}
    ranks = list(which)
    found = np.percentile(values, ranks)
    return {f"p{rank:g}": round(float(value), 3) for rank, value in zip(ranks, found, strict=True)}


def gaps_ms(exchange: Exchange, from_s: float) -> list[float]:
    """The times between consecutive reads with events, for reads after `from_s`.

    The first and the last gap are excluded: servers differ in whether they send the role, the first
    token, the last token and the finish reason together.
    """
    inner = exchange.arrivals_s[1 : len(exchange.arrivals_s) - 1]
    return [1000 * (later - earlier) for earlier, later in pairwise(inner) if later >= from_s]


def streams_summary(exchanges: Sequence[Exchange], from_s: float) -> dict[str, Any]:
    """The figures of one run of streams since `from_s`: failures, every TTFT, and gaps."""
    begun = [one for one in exchanges if one.sent_s >= from_s]
    started = [one for one in begun if one.status == 200 and one.arrivals_s]
    ttfts = [1000 * (one.arrivals_s[0] - one.sent_s) for one in started]
    gaps = [gap for one in exchanges for gap in gaps_ms(one, from_s)]
    return {
        "num_begun": len(begun),
        "num_with_first_token": len(started),
        "num_failed": sum(not one.is_complete and not one.is_cut for one in exchanges),
        "num_gaps": len(gaps),
        "ttft_ms": percentiles(ttfts),
        "inter_chunk_ms": percentiles(gaps, (*PERCENTILES, 99.9)),
        "ttfts_ms": [round(value, 3) for value in ttfts],
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median over the repeats, the lowest and the highest value."""
    return {
        "median": round(median(values), 3),
        "lowest": round(min(values), 3),
        "highest": round(max(values), 3),
    }


def added(
    runs: Sequence[Mapping[str, Any]], arm: str, baseline: str, measure: str, percentile: str
) -> dict[str, float]:
    """The arm's percentile minus that of the baseline in the same repeat."""
    by_repeat: dict[int, dict[str, float]] = {}
    for run in runs:
        by_repeat.setdefault(run["repeat"], {})[run["arm"]] = run[measure][percentile]
    return spread([each[arm] - each[baseline] for each in by_repeat.values() if arm in each])


@dataclass(frozen=True, slots=True)
class Promise:
    """The latency objective that a good request meets."""

    ttft_s: float
    total_s: float

    def is_kept(self, exchange: Exchange) -> bool:
        """Whether the exchange meets the objective, counted from when it was due."""
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
    """The figures of one run of arrivals: goodput, refusals, and the latencies of both."""
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
