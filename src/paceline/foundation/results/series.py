"""Throughput and load over the time of a run.

A server reports the tokens of an answer, not of a chunk, so the tokens of an answer are spread
evenly over its chunks. Tokens count when they arrive, whichever phase their request belongs to.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.foundation.load.records import RequestRecord

Floats = npt.NDArray[np.float64]
MAX_BUCKETS = 300
"""Enough for a plot; a report stays small however long the run."""


@dataclass(frozen=True, slots=True)
class TokenArrivals:
    """Output tokens by time, ascending."""

    times_s: Floats
    """(num_chunks,)"""
    cumulative_tokens: Floats
    """Tokens up to and with each chunk, (num_chunks,)."""

    def tokens_before(self, times_s: Floats) -> Floats:
        """Tokens that arrived before each of these times."""
        totals = np.concatenate([[0.0], self.cumulative_tokens])
        return np.asarray(totals[np.searchsorted(self.times_s, times_s, side="left")])

    def tokens_between(self, start_s: float, end_s: float) -> float:
        """Tokens that arrived in [start_s, end_s)."""
        before = self.tokens_before(np.array([start_s, end_s]))
        return float(before[1] - before[0])


@dataclass(frozen=True, slots=True)
class Series:
    """A run over time; entry i covers [i, i + 1) * bucket_s from its start."""

    bucket_s: float
    output_tokens_per_s: tuple[float, ...]
    requests_in_flight: tuple[float, ...]
    """Mean number of requests that were due and had not ended."""


def token_arrivals(records: Sequence[RequestRecord]) -> TokenArrivals:
    """The tokens of all successful records with usage."""
    counted = [r for r in records if r.is_ok and r.output_tokens and r.chunk_times_s]
    if not counted:
        return TokenArrivals(np.empty(0), np.empty(0))
    times_s = np.concatenate([np.asarray(r.chunk_times_s) for r in counted])
    per_chunk = np.concatenate(
        [
            np.full(len(r.chunk_times_s), (r.output_tokens or 0) / len(r.chunk_times_s))
            for r in counted
        ]
    )
    order = np.argsort(times_s, kind="stable")
    return TokenArrivals(times_s[order], np.cumsum(per_chunk[order]))


def build_series(records: Sequence[RequestRecord]) -> Series:
    """The series of one run, from time 0 to the last finish; buckets of at least one second."""
    end_s = max((r.finished_s for r in records), default=0.0)
    bucket_s = float(max(1.0, np.ceil(end_s / MAX_BUCKETS)))
    edges: Floats = np.arange(0.0, end_s + bucket_s, bucket_s, dtype=np.float64)
    if len(edges) < 2:
        return Series(bucket_s, (), ())
    tokens = np.diff(token_arrivals(records).tokens_before(edges))
    in_flight = [mean_in_flight(records, a, b) for a, b in itertools.pairwise(edges.tolist())]
    return Series(
        bucket_s=bucket_s,
        output_tokens_per_s=tuple((tokens / bucket_s).round(3).tolist()),
        requests_in_flight=tuple(round(mean, 3) for mean in in_flight),
    )


def mean_in_flight(records: Sequence[RequestRecord], start_s: float, end_s: float) -> float:
    """Mean number of requests that were due and had not ended in [start_s, end_s)."""
    if not records or end_s <= start_s:
        return 0.0
    due_s = np.fromiter((r.scheduled_s for r in records), np.float64, len(records))
    finished_s = np.fromiter((r.finished_s for r in records), np.float64, len(records))
    overlaps = np.minimum(finished_s, end_s) - np.maximum(due_s, start_s)
    return float(np.maximum(overlaps, 0).sum() / (end_s - start_s))
