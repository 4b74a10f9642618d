"""Hangs and long prefills of a mock engine, as the gateway judges them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx

from paceline.runtime.gateway import Replica, serve_gateway
from paceline.runtime.gateway.settings import FailureSettings
from paceline.testing.mock_vllm import Fault, FaultKind, MockVllm, MockVllmSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, until

MODEL = "known"


@asynccontextmanager
async def gateway_over(
    engine: MockVllm, failures: FailureSettings
) -> AsyncIterator[tuple[httpx.AsyncClient, list[str]]]:
    """A client of the gateway, and the names of the replicas that were found hung."""
    hung: list[str] = []
    source = FixedReplicas([Replica("r0", engine.url, MODEL, "ready", max_model_len=4096)])
    async with (
        serve_gateway(replace(SETTINGS, failures=failures), source, on_hung=hung.append) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        yield client, hung


async def test_responses_with_long_prompts_are_no_hang() -> None:
    """vLLM sends `response.created` before it computes the prompt; tokens take their time."""
    settings = MockVllmSettings(model=MODEL, prefill_tokens_per_s=1000, tpot_ms=1)
    failures = FailureSettings(silence_s=0.3, first_silence_s=30, max_attempts=1)
    async with MockVllm(settings) as engine, gateway_over(engine, failures) as (client, hung):
        bodies = [
            {"model": MODEL, "input": "x" * length, "max_output_tokens": 4, "stream": True}
            for length in (1800, 60, 50)
        ]
        answers = await asyncio.gather(*(client.post("/v1/responses", json=b) for b in bodies))
        assert [answer.status_code for answer in answers] == [200] * 3
        assert all("event: response.completed" in answer.text for answer in answers)
        assert hung == []


async def test_an_engine_that_hangs_is_found_by_its_counters_too() -> None:
    settings = MockVllmSettings(model=MODEL, tpot_ms=10)
    failures = FailureSettings(
        silence_s=0.3, first_silence_s=30, max_attempts=1, replica_wait_s=0.01
    )
    faults = [Fault(FaultKind.HANG, after_tokens=3)]
    async with (
        MockVllm(settings, faults=faults) as engine,
        gateway_over(engine, failures) as (client, hung),
    ):
        body = {"model": MODEL, "prompt": "a", "max_tokens": 50, "stream": True}
        sending = asyncio.create_task(client.post("/v1/completions", json=body))
        await until(lambda: hung == ["r0"])
        assert "engine_timeout" in (await sending).text


async def test_whole_answers_of_an_engine_that_hangs_are_ended_too() -> None:
    settings = MockVllmSettings(model=MODEL, tpot_ms=10)
    failures = FailureSettings(silence_s=30, first_silence_s=0.3, max_attempts=1)
    faults = [Fault(FaultKind.HANG)]
    async with (
        MockVllm(settings, faults=faults) as engine,
        gateway_over(engine, failures) as (client, hung),
    ):
        body = {"model": MODEL, "prompt": "a", "max_tokens": 50}
        sending = asyncio.create_task(client.post("/v1/completions", json=body))
        await until(lambda: hung == ["r0"])
        answer = await sending
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "engine_timeout")


async def test_a_whole_answer_of_an_engine_that_works_may_take_its_time() -> None:
    settings = MockVllmSettings(model=MODEL, tpot_ms=20, eos_every_tokens=0)
    failures = FailureSettings(silence_s=30, first_silence_s=0.3, max_attempts=1)
    async with MockVllm(settings) as engine, gateway_over(engine, failures) as (client, hung):
        body = {"model": MODEL, "prompt": "a", "max_tokens": 150}
        answer = await client.post("/v1/completions", json=body)
        assert (answer.status_code, hung) == (200, [])
