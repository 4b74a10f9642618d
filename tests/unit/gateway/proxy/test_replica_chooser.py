"""Which replicas a request may go to after its first attempt."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import httpx

from paceline.runtime.gateway import Replica, serve_gateway
from paceline.runtime.gateway.settings import FailureSettings
from paceline.testing.mock_vllm import (
    Fault,
    FaultKind,
    MockVllm,
    MockVllmSettings,
    encode_text,
    expected_answer,
)
from unit.gateway.conftest import SETTINGS, FixedReplicas
from unit.gateway.continuation.streams import text_in

MODEL, NUM_TOKENS = "known", 120


async def test_a_long_stream_survives_one_hang_of_every_replica() -> None:
    """The stream stalls on r0 after 40 tokens, on r1 after 40 more, and ends on r0 again.

    By default it is given up after two: it may be the cause."""
    stall = Fault(FaultKind.STALL, after_tokens=40, times=1)
    settings = MockVllmSettings(model=MODEL, tpot_ms=1, eos_every_tokens=0)
    failures = FailureSettings(replica_wait_s=5, max_replica_deaths=3)
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(MockVllm(settings, faults=[stall])) for _ in range(2)
        ]
        source = FixedReplicas(
            [
                Replica(f"r{n}", engine.url, MODEL, "ready", max_model_len=4096)
                for n, engine in enumerate(engines)
            ]
        )
        gateway = await stack.enter_async_context(
            serve_gateway(replace(SETTINGS, failures=failures, stall_timeout_s=0.4), source)
        )
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=gateway.url, timeout=60)
        )
        body = {"model": MODEL, "prompt": "a", "max_tokens": NUM_TOKENS, "temperature": 0}
        answer = await client.post("/v1/completions", json={**body, "stream": True}, timeout=60)
    assert answer.text.endswith("data: [DONE]\n\n")
    expected = expected_answer(encode_text("a"), NUM_TOKENS, eos_every_tokens=0)
    assert text_in(answer.content) == expected.text
