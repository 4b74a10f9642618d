"""The load generator's own health: how late its event loop ran, its stalls, its CPU use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.foundation.load.loop_lag import LoopLag, Stall
from paceline.foundation.load.records import RequestRecord

MAX_STALLS_LISTED = 100
MIN_WALL_S = 2.0
"""A shorter run is mostly the start of its requests, and its CPU use describes no load."""


@dataclass(frozen=True, slots=True)
class StallRecord:
    """A time in which the load generator neither sent nor read."""

    repeat: int
    start_s: float
    """From the start of the repeat."""
    duration_s: float


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """Figures of the load generator over all repeats."""

    event_loop_lag_ms_p50: float | None
    event_loop_lag_ms_p99: float | None
    event_loop_lag_ms_max: float | None
    cpu_fraction: float | None
    """CPU time of the load generator / wall time; it has one thread that works, so 1 is full. None
    for a run of less than 2 s."""
    num_stalls: int
    """Wake-ups of the event loop that were at least 100 ms late."""
    stalled_s: float
    """Their sum."""
    stalled_fraction: float | None
    """Of the wall time."""
    num_requests_stalled: int
    """Requests that were due or in flight during a stall: their latencies include it."""
    stalls: tuple[StallRecord, ...]
    """The longest ones, by time."""


def assess_client(
    lags: Sequence[LoopLag], repeats: Sequence[Sequence[RequestRecord]]
) -> ClientHealth:
    """The health over all repeats: entry i of both arguments belongs to repeat i."""
    wakeups_ms = np.concatenate([np.empty(0), *(np.array(lag.lags_s) for lag in lags)]) * 1e3
    wall_s = sum(lag.wall_s for lag in lags)
    stalls = [
        StallRecord(repeat, round(stall.start_s, 3), round(stall.duration_s, 3))
        for repeat, lag in enumerate(lags)
        for stall in lag.stalls
    ]
    longest = sorted(stalls, key=lambda stall: -stall.duration_s)[:MAX_STALLS_LISTED]
    stalled_s = sum(stall.duration_s for lag in lags for stall in lag.stalls)
    quantiles = np.percentile(wakeups_ms, (50, 99, 100)).tolist() if len(wakeups_ms) else [None] * 3
    return ClientHealth(
        event_loop_lag_ms_p50=quantiles[0],
        event_loop_lag_ms_p99=quantiles[1],
        event_loop_lag_ms_max=quantiles[2],
        cpu_fraction=sum(lag.cpu_s for lag in lags) / wall_s if wall_s >= MIN_WALL_S else None,
        num_stalls=len(stalls),
        stalled_s=stalled_s,
        stalled_fraction=stalled_s / wall_s if wall_s > 0 else None,
        num_requests_stalled=sum(
            _num_overlapping(lag.stalls, records)
            for lag, records in zip(lags, repeats, strict=False)
        ),
        stalls=tuple(sorted(longest, key=lambda stall: (stall.repeat, stall.start_s))),
    )


def _num_overlapping(stalls: Sequence[Stall], records: Sequence[RequestRecord]) -> int:
    return sum(
        any(r.scheduled_s < s.start_s + s.duration_s and r.finished_s >= s.start_s for s in stalls)
        for r in records
    )
