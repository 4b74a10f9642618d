"""Streams of every kind survive killed and stopped replicas, or end with an error.

Each replica but the first writes its events in a style of its own, and a second tenant sends
requests that engines answer with errors. `benchmarks/soak_kills.py` does the same 200 times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chaos.fleet import Fleet
from chaos.mixed_load.decorated_fleet import POISONER, REPLICA_STYLES, running_decorated_fleet
from chaos.mixed_load.load_report import count_by_kind, count_by_style, find_stream_errors
from chaos.mixed_load.poison import poisoning
from chaos.mixed_load.replica_faults import kill_replicas, stop_replicas
from chaos.mixed_load.stream_kinds import KINDS
from chaos.mixed_load.stream_load import LoadShape, run_streams
from chaos.mixed_load.strikes import Strike

SHAPE = LoadShape(num_streams=20, max_tokens=120, slow_max_tokens=900, slow_pause_s=(2.0, 3.0))
NUM_POISON_SENDERS = 4


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_decorated_fleet(len(REPLICA_STYLES), "--tpot-ms", "5") as running:
        yield running


@pytest.mark.parametrize("fault", [kill_replicas, stop_replicas])
async def test_no_stream_is_lost_or_changed(pair: Fleet, fault: Any) -> None:
    name, strikes = fault.__name__, list[Strike]()
    async with poisoning(
        pair, pair.keys[POISONER], NUM_POISON_SENDERS, name=f"poison-{name}"
    ) as poison:
        streams = await run_streams(pair, SHAPE, fault(pair, 2, strikes.append), name=name)
    assert find_stream_errors(pair, streams, strikes) == []
    assert poison.errors == []
    assert all(strike.is_noticed for strike in strikes)
    assert len(count_by_kind(pair, streams, strikes)) == 2 * len(KINDS)
    assert sum(one["num_struck"] for one in count_by_style(pair, streams, strikes).values()) > 0
