"""A queue that grows is found, and random arrivals at a server that keeps up are not."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.foundation.load.arrivals import poisson_arrivals
from paceline.foundation.load.records import RequestRecord
from paceline.workbench.bench.results.saturation import MIN_REQUESTS, find_queue_growth
from unit.bench.results.records import record


def served(rate_per_s: float, capacity_per_s: float, seed: int, count: int) -> list[RequestRecord]:
    """Poisson arrivals at one server that takes a fixed time for each, in order."""
    free_s, records = 0.0, []
    for index, due_s in enumerate(poisson_arrivals(rate_per_s, seed, count).tolist()):
        free_s = max(free_s, due_s) + 1 / capacity_per_s
        records.append(record(index, scheduled_s=due_s, chunk_times_s=(free_s,), finished_s=free_s))
    return records


@pytest.mark.parametrize("seed", range(5))
def test_arrivals_above_the_capacity_are_found(seed: int) -> None:
    growth = find_queue_growth(served(12.0, 10.0, seed, 600))
    assert growth is not None
    assert growth.in_flight_last_quarter > growth.in_flight_second_quarter + 10
    assert growth.e2e_ms_last_quarter > growth.e2e_ms_second_quarter


def test_a_server_that_keeps_up_is_seldom_accused() -> None:
    """At 70 % of the capacity the queue drifts by chance: at most 3 of 100 runs seem to grow."""
    found = [find_queue_growth(served(7.0, 10.0, seed, 400)) for seed in range(100)]
    assert sum(growth is not None for growth in found) <= 3


def test_few_requests_show_no_trend() -> None:
    assert find_queue_growth(served(20.0, 10.0, 0, MIN_REQUESTS - 1)) is None


def test_failed_requests_alone_show_no_trend() -> None:
    times_s = np.arange(50).tolist()
    failed = [
        record(i, t, chunk_times_s=(), finished_s=t, error="x") for i, t in enumerate(times_s)
    ]
    assert find_queue_growth(failed) is None
