"""Streams of every kind survive killed and stopped replicas, or end with an error.

`benchmarks/soak_kills.py` does the same 200 times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chaos.fleet import Fleet, running_fleet
from chaos.mixed_load.load_report import count_by_kind, find_stream_errors
from chaos.mixed_load.replica_faults import kill_replicas, stop_replicas
from chaos.mixed_load.stream_kinds import KINDS
from chaos.mixed_load.stream_load import LoadShape, run_streams

SHAPE = LoadShape(num_streams=20, max_tokens=120, slow_max_tokens=900, slow_pause_s=(2.0, 3.0))


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_fleet(3, "--tpot-ms", "5") as running:
        yield running


@pytest.mark.parametrize("fault", [kill_replicas, stop_replicas])
async def test_no_stream_is_lost_or_changed(fleet: Fleet, fault: Any) -> None:
    streams = await run_streams(fleet, SHAPE, fault(fleet, 2), name=fault.__name__)
    assert find_stream_errors(fleet, streams) == []
    counts = count_by_kind(fleet, streams)
    assert len(counts) == 2 * len(KINDS)
    greedy = counts["greedy"]
    assert greedy["num_completed"] == greedy["num_streams"]
    assert sum(one["num_interrupted_completed"] for one in counts.values()) > 0
