"""Every answer has a usage, also a stream whose client did not ask for it, and does not see it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway import Replica, serve_gateway
from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, Route
from paceline.runtime.gateway.requests.stream_usage import usage_fields
from paceline.runtime.gateway.requests.validation import check_request
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, chat
from unit.gateway.fake_engine import MODEL

ASKED = {"include_usage": True, "continuous_usage_stats": False}
PROMPT = {"model": MODEL, "prompt": "one two three"}


def fields(route: Route, body: dict[str, Any], dialect: str = "vllm") -> dict[str, Any]:
    request = check_request(route, json.dumps(body).encode(), SETTINGS)
    return dict(usage_fields(request, dialect))


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (None, ASKED),
        ({}, ASKED),
        ({"include_usage": False}, ASKED),
        ({"include_usage": False, "continuous_usage_stats": True}, ASKED),
        ({"other": 1}, {"other": 1, **ASKED}),
        ({"include_usage": True}, None),
        ({"include_usage": True, "continuous_usage_stats": True}, None),
    ],
)
@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp"])
def test_the_engine_is_asked_unless_the_client_asked(
    dialect: str, options: dict[str, Any] | None, asked: dict[str, Any] | None
) -> None:
    body = chat(stream=True, stream_options=options)
    assert fields(CHAT, body, dialect) == ({} if asked is None else {"stream_options": asked})


@pytest.mark.parametrize(
    ("route", "body", "dialect"),
    [
        (CHAT, chat(), "vllm"),
        (CHAT, chat(stream=True), "tgi"),
        (CHAT, chat(stream=True), "openai"),
        (COMPLETIONS, {**PROMPT, "stream": False}, "vllm"),
        (EMBEDDINGS, {"model": MODEL, "input": "a"}, "vllm"),
        (RESPONSES, {"model": MODEL, "input": "a", "stream": True}, "vllm"),
    ],
)
def test_other_answers_have_it_unasked_or_cannot_have_it(
    route: Route, body: dict[str, Any], dialect: str
) -> None:
    assert fields(route, body, dialect) == {}


@dataclass
class Service:
    """A gateway before a mock server, and a client of each."""

    http: httpx.AsyncClient
    direct: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def tokens(self) -> tuple[float, float]:
        """(prompt tokens, output tokens) counted so far."""
        values = {}
        for line in (await self.admin.get("/metrics")).text.splitlines():
            name, _, value = line.rpartition(" ")
            values[name] = value
        names = ("paceline_prompt_tokens_total", "paceline_output_tokens_total")
        prompt, output = (float(values[name]) for name in names)
        return prompt, output


@asynccontextmanager
async def before_mock(**changes: Any) -> AsyncIterator[Service]:
    settings = MockVllmSettings(model=MODEL, tpot_ms=0.5, eos_every_tokens=0)
    async with MockVllm(replace(settings, **changes)) as mock:
        replica = Replica("r0", mock.url, MODEL, "ready", max_model_len=4096)
        async with (
            serve_gateway(SETTINGS, FixedReplicas([replica])) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
            httpx.AsyncClient(base_url=mock.url, timeout=60) as direct,
            httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
        ):
            yield Service(http, direct, admin)


def without_ids(stream: str) -> list[Any]:
    """The events of a stream, without what differs between two answers to one request.

    The fingerprint is in the event with the usage, and lost with it.
    """
    payloads = [line[6:] for line in stream.splitlines() if line.startswith("data: ")]
    assert payloads.pop() == "[DONE]"
    ignored = {"id": None, "created": None, "system_fingerprint": None}
    return [{**json.loads(payload), **ignored} for payload in payloads]


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_usage": True}])
@pytest.mark.parametrize(
    ("route", "body"),
    [
        (CHAT, chat(temperature=0)),
        (CHAT, chat(temperature=0, presence_penalty=1)),
        (CHAT, chat(temperature=1, seed=1, n=3)),
        (COMPLETIONS, {**PROMPT, "temperature": 0}),
        (COMPLETIONS, {**PROMPT, "prompt": ["a", "b c"], "temperature": 0}),
    ],
)
async def test_a_stream_has_the_events_that_the_client_asked_for(
    route: Route, body: dict[str, Any], options: dict[str, Any] | None
) -> None:
    """The same as from the engine itself; the engine's count is in the metrics."""
    async with before_mock() as it:
        request = {**body, "stream": True, "max_tokens": 12}
        if options is not None:
            request["stream_options"] = options
        expected = await it.direct.post(route.path, json=request)
        counted = await it.direct.post(
            route.path, json={**request, "stream_options": {"include_usage": True}}
        )
        usage = without_ids(counted.text)[-1]["usage"]
        answer = await it.http.post(route.path, json=request)
        assert sorted(map(str, without_ids(answer.text))) == sorted(
            map(str, without_ids(expected.text))
        )
        assert await it.tokens() == (usage["prompt_tokens"], usage["completion_tokens"])


async def test_a_whole_answer_is_counted() -> None:
    async with before_mock() as it:
        answer = (await it.http.post(CHAT.path, json=chat(max_tokens=7))).json()
        assert answer["usage"]["completion_tokens"] == 7
        assert await it.tokens() == (answer["usage"]["prompt_tokens"], 7)


async def test_of_a_stream_that_its_client_leaves_the_received_tokens_count() -> None:
    async with before_mock(tpot_ms=5) as it:
        body = {**PROMPT, "prompt": [5, 6, 7], "stream": True, "max_tokens": 2000}
        async with it.http.stream("POST", COMPLETIONS.path, json=body) as answer:
            num_events = 0
            async for line in answer.aiter_lines():
                num_events += line.startswith("data: ")
                if num_events == 10:
                    break
        prompt, output = 0.0, 0.0

        async def has_counted() -> bool:
            nonlocal prompt, output
            prompt, output = await it.tokens()
            return prompt > 0

        while not await has_counted():
            pass
        assert prompt == 3
        assert 10 <= output < 1000


async def test_a_refused_request_counts_nothing() -> None:
    async with before_mock() as it:
        assert (await it.http.post(CHAT.path, json=chat(temperature=-1))).status_code == 400
        assert await it.tokens() == (0, 0)
