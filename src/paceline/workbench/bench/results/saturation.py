"""Find a queue that grows over an open-loop run: the server does not keep up with the arrivals.

Its latencies then depend on how long the run is, and no percentile describes the server.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.series import mean_in_flight

MIN_REQUESTS = 40
"""Ten per quarter; fewer show no trend."""
MIN_GROWTH = 1.25
"""Of the requests in flight and of the latency, from the second to the last quarter of the
arrivals; chosen empirically. Both must grow: with random arrivals either one drifts by chance."""
MIN_ADDED_REQUESTS = 2.0


@dataclass(frozen=True, slots=True)
class QueueGrowth:
    """Evidence that the queue grows."""

    in_flight_second_quarter: float
    in_flight_last_quarter: float
    e2e_ms_second_quarter: float
    """Medians of the requests that were due in the quarter."""
    e2e_ms_last_quarter: float


def find_queue_growth(records: Sequence[RequestRecord]) -> QueueGrowth | None:
    """The growth of the queue over the arrivals of a stationary load; None if it does not grow.

    The first quarter fills the server and is left out.
    """
    if len(records) < MIN_REQUESTS:
        return None
    due_s = sorted(r.scheduled_s for r in records)
    width_s = (due_s[-1] - due_s[0]) / 4
    edges_s = [due_s[0] + width_s * number for number in range(5)]
    quarters = list(itertools.pairwise(edges_s))[1:]
    in_flight = [mean_in_flight(records, start_s, end_s) for start_s, end_s in quarters]
    latencies_ms = [_median_e2e_ms(records, start_s, end_s) for start_s, end_s in quarters]
    first_ms, last_ms = latencies_ms[0], latencies_ms[-1]
    if first_ms is None or last_ms is None:
        return None
    is_growing = (
        in_flight[0] < in_flight[1] < in_flight[2]
        and in_flight[2] >= MIN_GROWTH * in_flight[0]
        and in_flight[2] - in_flight[0] >= MIN_ADDED_REQUESTS
        and last_ms >= MIN_GROWTH * first_ms
    )
    return QueueGrowth(in_flight[0], in_flight[2], first_ms, last_ms) if is_growing else None


def _median_e2e_ms(records: Sequence[RequestRecord], start_s: float, end_s: float) -> float | None:
    latencies_ms = [r.e2e_s * 1e3 for r in records if start_s <= r.scheduled_s < end_s and r.is_ok]
    return statistics.median(latencies_ms) if latencies_ms else None
