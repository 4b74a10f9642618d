"""Of remote servers, those that draft are known, and their refusals are tried elsewhere.

vLLM refuses `min_p` and `logit_bias` while it drafts. The servers are mock vLLM servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from paceline.runtime.gateway import ReplicaEntry
from paceline.runtime.gateway.settings import FailureSettings
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from unit.gateway.conftest import chat
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import CHAT, Running, running

MODEL = "tiny"
SETTINGS = MockVllmSettings(model=MODEL, tpot_ms=0.2)
DRAFTING = replace(SETTINGS, speculates=True)
RETRYING = FailureSettings(replica_wait_s=0.1)
REFUSAL = {
    "error": {
        "message": "The min_p and logit_bias sampling parameters are not yet supported with "
        "speculative decoding.",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }
}


@asynccontextmanager
async def drafting_and_plain(**entry: Any) -> AsyncIterator[Running]:
    """A gateway before two mock servers; `entry` changes the entry of the one that drafts."""
    async with MockVllm(DRAFTING) as drafting, MockVllm(SETTINGS) as plain:
        entries = (
            ReplicaEntry(url=drafting.url, name="drafting", **entry),
            ReplicaEntry(url=plain.url, name="plain"),
        )
        async with running(*entries, failures=RETRYING) as it:
            await it.until_state("drafting", "ready")
            await it.until_state("plain", "ready")
            yield it


async def statuses(it: Running, num: int, **fields: object) -> list[int]:
    """The answers to `num` requests, four at a time."""
    body = chat(max_tokens=4, **fields)
    found = []
    for _ in range(0, num, 4):
        answers = await asyncio.gather(*(it.http.post(CHAT, json=body) for _ in range(4)))
        found += [answer.status_code for answer in answers]
    return found


@pytest.mark.parametrize("field", [{"logit_bias": {"5": 1}}, {"min_p": 0.1}])
async def test_a_drafting_remote_server_gets_no_request_that_it_would_refuse(
    field: dict[str, object],
) -> None:
    """Its entry does not say that it drafts; its metrics do."""
    async with drafting_and_plain() as it:
        assert await statuses(it, 60, **field) == [200] * 60
        replicas = await it.replicas()
        assert (replicas["drafting"]["drafts"], replicas["plain"]["drafts"]) == (True, False)
        text = (await it.admin.get("/metrics")).text
        assert 'paceline_retries_total{kind="engine_refused"} 0.0' in text


async def test_a_configured_value_overrides_the_metrics() -> None:
    """`drafts: false` sends these requests to the server; its refusal is tried on the sibling."""
    async with drafting_and_plain(drafts=False) as it:
        assert (await it.replicas())["drafting"]["drafts"] is False
        assert await statuses(it, 20, logit_bias={"5": 1}) == [200] * 20


async def test_a_refusal_because_of_drafts_is_tried_on_a_sibling() -> None:
    """A server that shows no metrics may draft."""
    async with FakeRemote() as silent, MockVllm(SETTINGS) as plain:
        silent.page = ""
        silent.mode, silent.refusal = "refuse", (400, REFUSAL)
        entries = (ReplicaEntry(url=silent.url), ReplicaEntry(url=plain.url))
        async with running(*entries, failures=RETRYING, warm_up=False) as it:
            for entry in entries:
                await it.until_state(entry.label, "ready")
            assert await statuses(it, 20, logit_bias={"5": 1}) == [200] * 20
            assert silent.num_begun > 0
            states = it.gateway.traffic.breaker_states()
            assert {state.value for state in states.values()} == {"closed"}


async def test_the_refusal_is_the_answer_where_no_sibling_is_left() -> None:
    async with FakeRemote() as silent:
        silent.page = ""
        silent.mode, silent.refusal = "refuse", (400, REFUSAL)
        entry = ReplicaEntry(url=silent.url, name="a")
        async with running(entry, failures=RETRYING, warm_up=False) as it:
            await it.until_state("a", "ready")
            answer = await it.http.post(CHAT, json=chat(logit_bias={"5": 1}))
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == "logit_bias"
            assert silent.num_begun == 1
