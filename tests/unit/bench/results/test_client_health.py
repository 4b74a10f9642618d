"""The load generator's health, from the wake-ups of its event loop."""

from __future__ import annotations

from array import array

import pytest

from paceline.foundation.load.loop_lag import LoopLag, Stall
from paceline.workbench.bench.results.client_health import (
    MAX_STALLS_LISTED,
    StallRecord,
    assess_client,
)
from unit.bench.results.records import record, steady


def test_lags_cpu_and_stalls_are_pooled_over_repeats() -> None:
    """Requests are in flight for 0.75 s of each second; the stall of 2.1 to 3.1 s meets two."""
    first = LoopLag(0.0, array("d", [0.001] * 99), [], wall_s=10.0, cpu_s=4.0)
    second = LoopLag(0.0, array("d", [1.0]), [Stall(2.1, 1.0)], wall_s=10.0, cpu_s=2.0)
    health = assess_client([first, second], [steady(10), steady(10, repeat=1)])
    assert health.event_loop_lag_ms_p50 == pytest.approx(1.0)
    assert health.event_loop_lag_ms_max == pytest.approx(1000.0)
    assert health.cpu_fraction == pytest.approx(0.3)
    assert (health.num_stalls, health.stalled_s) == (1, 1.0)
    assert health.stalled_fraction == pytest.approx(0.05)
    assert health.num_requests_stalled == 2
    assert health.stalls == (StallRecord(1, 2.1, 1.0),)


def test_a_request_that_was_due_during_a_stall_counts() -> None:
    lag = LoopLag(0.0, array("d"), [Stall(1.0, 1.0)], wall_s=9.0)
    late = record(scheduled_s=1.5, sent_s=2.0, chunk_times_s=(3.0,), finished_s=3.0)
    before = record(1, chunk_times_s=(0.5,), finished_s=0.9)
    assert assess_client([lag], [[late, before]]).num_requests_stalled == 1


def test_the_longest_stalls_are_listed_by_time() -> None:
    stalls = [Stall(float(n), 0.1 + n / 1000) for n in range(MAX_STALLS_LISTED + 20)]
    health = assess_client([LoopLag(0.0, array("d"), stalls, wall_s=200.0)], [[]])
    assert health.num_stalls == MAX_STALLS_LISTED + 20
    assert [stall.start_s for stall in health.stalls] == [
        float(n) for n in range(20, MAX_STALLS_LISTED + 20)
    ]


def test_the_cpu_use_of_a_short_run_is_unknown() -> None:
    assert assess_client([LoopLag(0.0, wall_s=1.9, cpu_s=1.9)], [[]]).cpu_fraction is None
    assert assess_client([LoopLag(0.0, wall_s=2.0, cpu_s=1.0)], [[]]).cpu_fraction == 0.5


def test_a_run_that_did_not_begin_has_no_health() -> None:
    health = assess_client([], [])
    assert health.event_loop_lag_ms_p99 is None
    assert health.cpu_fraction is None
    assert health.num_stalls == 0
