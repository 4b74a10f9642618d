"""Streams continue token for token when the engine core of a real engine is killed under them.

Two engines with the bundled pair and continuous streams. `benchmarks/chaos_real.py` kills twenty
times, also the API server and the whole process group.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chaos.engines import Victim
from chaos.gateway_process import start_gateway
from chaos.real_engines.killing import READY_WITHIN_S, KillingRun
from losslessness.greedy import NEAR_TIE_NATS

from paceline.demo import heldout_path

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


async def test_streams_survive_killed_engines(tmp_path: Path) -> None:
    chats = [one for one in json.loads(heldout_path().read_text()) if "messages" in one]
    texts = [one["messages"][0]["content"] for one in chats[:3]]
    config = {"engine": {"replicas": 2}, "server": {"granted_fields": ["ignore_eos"]}}
    with start_gateway(tmp_path, config, ready_within_s=2 * READY_WITHIN_S) as gateway:
        run = KillingRun(gateway, "paceline-demo", texts, max_tokens=128, seed=0)
        await run.run([Victim.CORE], num_streams=12)
        differences = await run.differences()
    summary = run.summary()
    assert run.errors() == []
    assert summary["num_eligible_streams_struck"] > 0
    assert summary["num_eligible_streams_completed"] == summary["num_eligible_streams"]
    far = [
        one
        for one in differences
        if one["gap_nats"] is not None and one["gap_nats"] > NEAR_TIE_NATS["bfloat16"]
    ]
    assert far == []
