"""The ratios of two checkouts: figures worked out from known times, and their intervals."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gateway.arms import DIRECT
from benchmarks.gateway.compare_checkouts import (
    AFTER,
    BEFORE,
    BEFORE_AGAIN,
    interval_of_median,
    ratios,
    verdict,
)

DIRECT_MS = 3.0
COSTS = {BEFORE: (1.0, 2e-3, 1e-4), AFTER: (1.5, 3e-3, 1e-4), BEFORE_AGAIN: (1.0, 2e-3, 1e-4)}
"""Added ms to the first token, CPU seconds per request and per chunk."""


def a_run(repeat: int, load: str, arm: str) -> dict[str, Any]:
    added_ms, per_request_s, per_chunk_s = COSTS.get(arm, (0.0, 0.0, 0.0))
    num_requests, num_chunks = (400, 800) if load == "short" else (10, 6000)
    ttft_ms = DIRECT_MS + added_ms
    return {
        "repeat": repeat,
        "load": load,
        "arm": arm,
        "num_requests": num_requests,
        "num_chunks": num_chunks,
        "cpu_s": num_requests * per_request_s + num_chunks * per_chunk_s,
        "ttft_ms": {"p50": ttft_ms, "p90": ttft_ms},
        "gaps_ms": {"p50": 40.0, "p99": 41.0},
    }


def test_the_costs_of_a_request_and_of_a_chunk_are_told_apart() -> None:
    arms = (*COSTS, DIRECT)
    runs = [a_run(n, load, arm) for n in range(3) for load in ("short", "long") for arm in arms]
    found = {name: one["median"] for name, one in ratios(runs, AFTER).items()}
    assert found["cpu_per_request"] == pytest.approx(1.5)
    assert found["cpu_per_chunk"] == pytest.approx(1.0)
    assert found["ttft_p50_short"] == pytest.approx(4.5 / 4.0)
    assert found["added_ttft_p50_short"] == pytest.approx(1.5)
    assert found["gaps_p50_long"] == 1.0
    assert {one["median"] for one in ratios(runs, BEFORE_AGAIN).values()} == {1.0}


@pytest.mark.parametrize(
    ("num", "ranks"), [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (12, (3, 10)), (20, (6, 15))]
)
def test_the_interval_of_a_median_has_the_ranks_of_the_tables(
    num: int, ranks: tuple[int, int]
) -> None:
    """Of the sign test at 95 %; fewer than six values have no such interval."""
    assert interval_of_median([float(n) for n in range(num, 0, -1)]) == ranks


def test_a_ratio_is_within_the_limit_only_with_its_whole_interval() -> None:
    assert verdict({"low": 0.98, "high": 1.02}) == "within"
    assert verdict({"low": 1.0, "high": 1.03}) == "undecided"
    assert verdict({"low": 1.03, "high": 1.1}) == "above"
