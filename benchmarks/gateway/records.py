"""What do the times of a run come to?

Values and percentiles; nothing here waits or measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from benchmarks.gateway.sse_client import Exchange

PERCENTILES = (50, 90, 99)
_NUM_ENDS = 2
"""The first and the last gap of a stream are left out: servers differ in whether they send the
role, the first token, the last token and the finish reason together."""


def percentiles(values: Sequence[float], which: Iterable[float] = PERCENTILES) -> dict[str, float]:
    """By name ("p50"), linearly interpolated; empty for no values."""
    if not len(values):
        return {}
    ranks = list(which)
    found = np.percentile(values, ranks)
    return {f"p{rank:g}": round(float(value), 3) for rank, value in zip(ranks, found, strict=True)}


def gaps_ms(exchange: Exchange) -> list[float]:
    """Between one read that brought events and the next."""
    inner = exchange.arrivals_s[1 : len(exchange.arrivals_s) - 1]
    return [1000 * (later - earlier) for earlier, later in pairwise(inner)]


def ttft_ms(exchange: Exchange) -> float:
    return 1000 * (exchange.arrivals_s[0] - exchange.sent_s)


def streams_summary(exchanges: Sequence[Exchange]) -> dict[str, Any]:
    """Of one run of streams: what failed, TTFT (each of them too) and gaps."""
    whole = [one for one in exchanges if one.status == 200 and one.is_complete and one.arrivals_s]
    ttfts = [ttft_ms(one) for one in whole]
    gaps = [gap for one in whole for gap in gaps_ms(one)]
    return {
        "num_streams": len(whole),
        "num_failed": len(exchanges) - len(whole),
        "num_gaps": len(gaps),
        "ttft_ms": percentiles(ttfts),
        "inter_chunk_ms": percentiles(gaps, (*PERCENTILES, 99.9)),
        "inter_chunk_mean_ms": round(sum(gaps) / len(gaps), 4) if gaps else None,
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
