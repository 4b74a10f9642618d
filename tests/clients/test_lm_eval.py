"""lm-evaluation-harness scores texts through the gateway, in batches of more than 64 prompts.

Its requests have `echo` and `logprobs`, so the gateway must grant `prompt_logprobs`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from clients.conftest import OneReplica
from clients.real_clients import Client, python, run_session
from clients.sessions.scored_texts import (
    END_TOKEN,
    NUM_TOKENS,
    PAIRS,
    PROMPTS,
    ROLLING,
)
from paceline.runtime.gateway import GatewaySettings, Replica, serve_gateway
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings, expected_answer
from paceline.testing.mock_vllm.model.sampling import prompt_logprobs

MODEL = "org/tiny-1"
HARNESS = Client(python("lm_eval_session.py"), errors={})


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[str, MockVllm]]:
    """The base URL of a gateway with its default limits, and the engine."""
    async with MockVllm(MockVllmSettings(model=MODEL, tpot_ms=0, eos_every_tokens=0)) as mock:
        replica = Replica("r0", mock.url, MODEL, "ready", max_model_len=2048)
        settings = GatewaySettings(
            port=0, admin_port=0, granted_fields=frozenset({"prompt_logprobs"})
        )
        async with serve_gateway(settings, OneReplica(replica)) as gateway:
            yield f"{gateway.url}/v1", mock


def score(context: bytes, continuation: bytes) -> tuple[float, bool]:
    """The log-probability of the continuation, and whether all its tokens are the likeliest."""
    scores = prompt_logprobs([*context, *continuation], 1, eos_every_tokens=0)[len(context) :]
    found = [one for one in scores if one is not None]
    assert len(found) == len(continuation)
    return sum(one.logprob for one in found), all(one.token == one.top[0][0] for one in found)


async def test_the_harness_gets_the_scores_and_the_answers_of_the_engine() -> None:
    steps = ("in_batches", "in_concurrent_batches", "rolling", "answers", "concurrent_answers")
    async with serving() as (url, mock):
        results = await run_session(HARNESS, url, MODEL, "", *steps)
        log = json.loads(mock.request_log.render())["records"]
    scores = [score(context.encode(), continuation.encode()) for context, continuation in PAIRS]
    for step in ("in_batches", "in_concurrent_batches"):
        assert [is_best for _, is_best in results[step]] == [is_best for _, is_best in scores]
        assert [one for one, _ in results[step]] == pytest.approx([one for one, _ in scores])
    text = ROLLING.encode()
    first, rest = text[:38], text[38:]  # windows of 38 tokens, the second with what precedes it
    windows = [score(bytes([END_TOKEN]), first), score(text[len(text) - 39 : 38], rest)]
    assert results["rolling"] == [pytest.approx(sum(one for one, _ in windows))]
    texts = [
        expected_answer(prompt.encode(), NUM_TOKENS, eos_every_tokens=0).text for prompt in PROMPTS
    ]
    assert results["answers"] == results["concurrent_answers"] == texts
    sizes = sorted(record["num_tokens"] for record in log)  # one token of each scored prompt
    assert sizes == sorted([100, 50, 128 * NUM_TOKENS, 22 * NUM_TOKENS] * 2 + [1, 1])


@pytest.mark.parametrize(("num_prompts", "status"), [(256, 200), (257, 400)])
async def test_a_batch_may_have_as_many_prompts_as_a_replica_has_slots(
    num_prompts: int, status: int
) -> None:
    """By default 256; the refusal names the setting."""
    prompts = [[number % 256, 1] for number in range(num_prompts)]
    async with serving() as (url, _), httpx.AsyncClient(timeout=60) as http:
        body = {"model": MODEL, "prompt": prompts, "max_tokens": 1, "logprobs": 1, "echo": True}
        answer = await http.post(f"{url}/completions", json={**body, "temperature": 0})
    assert answer.status_code == status
    assert status == 200 or "admission.max_in_flight" in answer.json()["error"]["message"]
