"""Answers reach the client as the engine gave them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import openai
import pytest

from unit.gateway.conftest import Served, chat
from unit.gateway.fake_engine import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")


def client_of(served: Served) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{served.gateway.url}/v1", api_key="unused", max_retries=0, timeout=60
    )


async def test_the_openai_client_chats_plain_and_streamed(served: Served) -> None:
    client = client_of(served)
    messages = [{"role": "user", "content": "hello"}]
    plain = await client.chat.completions.create(model=MODEL, messages=messages)
    assert plain.choices[0].message.content == served.engine.text
    stream = await client.chat.completions.create(model=MODEL, messages=messages, stream=True)
    deltas = [chunk.choices[0].delta.content async for chunk in stream]
    assert deltas == served.engine.tokens


async def test_the_openai_client_completes_plain_and_streamed(served: Served) -> None:
    client = client_of(served)
    plain = await client.completions.create(model=MODEL, prompt="def f")
    assert plain.choices[0].text == served.engine.text
    stream = await client.completions.create(model=MODEL, prompt="def f", stream=True)
    assert [chunk.choices[0].text async for chunk in stream] == served.engine.tokens


async def test_the_openai_client_lists_the_model(served: Served) -> None:
    models = [model async for model in client_of(served).models.list()]
    assert [model.id for model in models] == [MODEL]


async def test_the_body_reaches_the_engine_byte_for_byte(served: Served) -> None:
    body = (
        b'{ "messages":[{"role":"user","content":"h\\u00e9: \xf0\x9f\x98\x80"}],\n"model":"tiny"}'
    )
    answer = await served.http.post(
        "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200
    assert served.engine.bodies == [body]


async def test_a_stream_passes_byte_for_byte(served: Served) -> None:
    served.engine.mode = "raw"
    served.engine.raw = (
        b':\n\ndata: {"choices":[{"delta":{"content":"data: [DONE] \\"error\\""}}]}\n\n'
        b'event: odd\ndata: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    answer = await served.http.post("/v1/chat/completions", json=chat(stream=True))
    assert answer.content == served.engine.raw
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_characters_split_between_bytes_survive(served: Served) -> None:
    served.engine.mode = "split"
    served.engine.tokens = ["😀", "né", "日本", "\u2028"]
    answer = await served.http.post("/v1/chat/completions", json=chat(stream=True))
    events = [line[6:] for line in answer.text.split("\n") if line.startswith("data: {")]
    contents = [json.loads(event)["choices"][0]["delta"]["content"] for event in events]
    assert contents == served.engine.tokens


async def test_events_are_sent_without_delay(served: Served) -> None:
    """The client has the first token long before the engine generates the last one."""
    served.engine.mode = "stall"
    async with served.http.stream("POST", "/v1/chat/completions", json=chat(stream=True)) as answer:
        async with asyncio.timeout(60):
            first = await anext(answer.aiter_bytes())
    assert served.engine.tokens[0].encode() in first


async def test_a_long_event_passes_whole(served: Served) -> None:
    served.engine.tokens = ["x" * 2_000_000, "y"]
    answer = await served.http.post("/v1/chat/completions", json=chat(stream=True))
    assert "x" * 2_000_000 in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("abc-1.2:3_x", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("", False)],
)
async def test_a_safe_request_id_is_kept_and_others_are_replaced(
    served: Served, given: str, is_kept: bool
) -> None:
    answer = await served.http.post(
        "/v1/chat/completions", json=chat(), headers={"x-request-id": given}
    )
    used = answer.headers["x-request-id"]
    assert (used == given) is is_kept
    assert len(used) >= 11
    assert served.engine.headers[0]["x-request-id"] == used


async def test_client_headers_stay_at_the_gateway(served: Served) -> None:
    await served.http.post(
        "/v1/chat/completions",
        json=chat(),
        headers={"authorization": "Bearer secret", "x-data-parallel-rank": "3", "cookie": "a=b"},
    )
    sent = served.engine.headers[0]
    assert not {"authorization", "x-data-parallel-rank", "cookie"} & set(sent)


async def test_the_replica_with_fewer_requests_in_flight_is_chosen(served: Served) -> None:
    first = served.source.current[0]
    served.source.current = [first, replace(first, name="r1")]
    served.engine.mode = "stall"
    async with served.http.stream("POST", "/v1/chat/completions", json=chat(stream=True)) as one:
        assert one.status_code == 200
        async with served.http.stream(
            "POST", "/v1/chat/completions", json=chat(stream=True)
        ) as two:
            assert two.status_code == 200
            assert repr(served.gateway.traffic) == "LeaseTable({'r0': 1, 'r1': 1})"
