"""Streams of servers that do not run here pass unchanged, or end with an error that says so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from unit.gateway.conftest import Served, chat
from unit.gateway.other_servers.pinned import (
    DONE,
    SGLANG_ABORTED,
    SGLANG_CHAT,
    SGLANG_COMPLETION,
    SGLANG_END,
    SGLANG_TIMED_OUT,
    SGLANG_USAGE,
    TGI_CHAT,
    TGI_END,
    TGI_FAULT,
    TGI_INCOMPLETE,
    TGI_OVERLOADED,
    TGI_TOO_LONG,
    TRITON_CHAT,
    TRITON_END,
    tgi_error_event,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "/v1/chat/completions"


def _answers(served: Served, dialect: str, stream: bytes) -> None:
    served.source.current = [replace(served.replicas[0], dialect=dialect)]
    served.engine.mode, served.engine.raw = "raw", stream


@pytest.mark.parametrize(
    ("dialect", "stream"),
    [
        ("sglang", SGLANG_CHAT + SGLANG_END + DONE),
        ("tgi", TGI_CHAT + TGI_END + DONE),
        ("tgi", (TGI_CHAT + TGI_END + DONE).replace(b"data: ", b"data:")),
        ("triton", TRITON_CHAT + TRITON_END + DONE),
        ("openai", TRITON_CHAT + TRITON_END + DONE),
        ("tgi", TGI_CHAT + DONE),  # after a complete tool call
    ],
)
async def test_a_complete_stream_passes_with_a_blank_after_each_colon(
    served: Served, dialect: str, stream: bytes
) -> None:
    _answers(served, dialect, stream)
    answer = await served.http.post(CHAT, json=chat(stream=True))
    expected = stream.replace(b"data:{", b"data: {").replace(b"data:[", b"data: [")
    assert (answer.status_code, answer.content) == (200, expected)
    assert await served.outcomes() == {"completed": 1}


async def test_sglang_is_asked_for_the_usage_which_the_client_does_not_see(served: Served) -> None:
    _answers(served, "sglang", SGLANG_CHAT + SGLANG_END + SGLANG_USAGE + DONE)
    answer = await served.http.post(CHAT, json=chat(stream=True))
    assert answer.content == SGLANG_CHAT + SGLANG_END + DONE
    asked = json.loads(served.engine.bodies[0])["stream_options"]
    assert asked == {"include_usage": True, "continuous_usage_stats": False}


async def test_a_completion_of_sglang_passes(served: Served) -> None:
    _answers(served, "sglang", SGLANG_COMPLETION + DONE)
    body = {"model": "tiny", "prompt": "def", "stream": True}
    answer = await served.http.post("/v1/completions", json=body)
    assert answer.content == SGLANG_COMPLETION + DONE


@pytest.mark.parametrize(
    ("dialect", "begun", "rest", "status"),
    [
        ("sglang", SGLANG_CHAT, b"", 503),  # the connection is closed
        ("sglang", SGLANG_CHAT, SGLANG_ABORTED + DONE, 503),
        ("sglang", SGLANG_CHAT, SGLANG_TIMED_OUT + DONE, 503),
        ("tgi", TGI_CHAT, b"", 503),
        ("tgi", TGI_CHAT, tgi_error_event(TGI_FAULT), 500),
        ("tgi", TGI_CHAT, tgi_error_event(TGI_INCOMPLETE), 500),
        ("tgi", TGI_CHAT, tgi_error_event(TGI_FAULT).replace(b"data: ", b"data:"), 500),
        ("triton", TRITON_CHAT, b"", 503),
        ("llamacpp-python", TRITON_CHAT, DONE, 503),
    ],
)
async def test_a_stream_that_breaks_ends_with_an_error(
    served: Served, dialect: str, begun: bytes, rest: bytes, status: int
) -> None:
    _answers(served, dialect, begun + rest)
    answer = await served.http.post(CHAT, json=chat(stream=True))
    assert answer.content.startswith(begun)
    event = answer.content[len(begun) :]
    assert b"[DONE]" not in event
    error = json.loads(event.removeprefix(b"data: "))["error"]
    kinds = {500: "server_error", 503: "service_unavailable_error"}
    assert error["type"] == kinds[status]
    outcomes = await served.outcomes()
    assert outcomes in ({"engine_error": 1}, {"broken": 1})


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (TGI_OVERLOADED, 429, "rate_limited"),
        (TGI_TOO_LONG, 400, "context_length_exceeded"),
        ("Tool error: no such tool", 400, "invalid_value"),
        (TGI_FAULT, 500, "engine_error"),
    ],
)
async def test_a_refusal_that_tgi_sends_as_a_stream_is_an_answer_with_its_status(
    served: Served, message: str, status: int, code: str
) -> None:
    """The client has received nothing, so that it may get a status, and another replica a try."""
    _answers(served, "tgi", tgi_error_event(message))
    answer = await served.http.post(CHAT, json=chat(stream=True))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert ("retry-after" in answer.headers) == (status == 429)
    refused = "engine_refused" if status < 500 else "engine_error"
    assert await served.outcomes() == {refused: 1}
