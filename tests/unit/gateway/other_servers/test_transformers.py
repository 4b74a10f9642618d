"""Answers of `transformers serve` 5.19.0, recorded on 2026-11-29 from the bundled target model.

Nothing is altered but the ids and times, which are shorter. Its streams have no `[DONE]`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.gateway.conftest import Served, chat

pytestmark = pytest.mark.asyncio(loop_scope="module")

_CHAT_HEAD = b'data: {"id":"a1e62fc6","choices":[{"delta":'
_CHAT_TAIL = (
    b'],"created":1,"model":"tiny@main","object":"chat.completion.chunk","system_fingerprint":""'
)
CHAT = (
    _CHAT_HEAD + b'{"role":"assistant"},"index":0}' + _CHAT_TAIL + b"}\n\n",
    _CHAT_HEAD + b'{"content":"\\"\\"\\""},"index":0}' + _CHAT_TAIL + b"}\n\n",
    _CHAT_HEAD + b'{"content":"Return"},"index":0}' + _CHAT_TAIL + b"}\n\n",
    _CHAT_HEAD + b'{},"index":0,"finish_reason":"length"}' + _CHAT_TAIL
    + b',"usage":{"completion_tokens":2,"prompt_tokens":13,"total_tokens":15}}\n\n',
)  # fmt: skip
_TEXT_TAIL = b'],"created":1,"model":"tiny@main","object":"text_completion"'
COMPLETION = (
    b'data: {"id":"cc210b41","choices":[{"index":0,"text":"match"}' + _TEXT_TAIL + b"}\n\n",
    b'data: {"id":"cc210b41","choices":[{"index":0,"text":"):\\n"}' + _TEXT_TAIL + b"}\n\n",
    b'data: {"id":"cc210b41","choices":[{"finish_reason":"length","index":0,"text":""}' + _TEXT_TAIL
    + b',"usage":{"completion_tokens":2,"prompt_tokens":3,"total_tokens":5}}\n\n',
)  # fmt: skip
WHOLE = (
    b'{"id":"dd1e673c","choices":[{"finish_reason":"length","index":0,"text":"match):\\n"}],'
    b'"created":1,"model":"tiny@main","object":"text_completion","usage":{"completion_tokens":2,'
    b'"prompt_tokens":3,"total_tokens":5}}'
)
REFUSED = {"detail": "Unexpected fields in the request: {'top_k'}"}
PINNED = {"detail": "Server is pinned to 'tiny'; requested 'other'."}

STREAMS = {
    "/v1/chat/completions": (chat(stream=True), CHAT),
    "/v1/completions": ({"model": "tiny", "prompt": "def f(", "stream": True}, COMPLETION),
}


def _answers(served: Served, body: bytes) -> None:
    served.source.current = [replace(served.replicas[0], dialect="openai")]
    served.engine.mode, served.engine.raw = "raw", body


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_without_done_is_complete_and_gets_one(served: Served, path: str) -> None:
    body, events = STREAMS[path]
    _answers(served, b"".join(events))
    answer = await served.http.post(path, json=body)
    assert (answer.status_code, answer.content) == (200, b"".join(events) + b"data: [DONE]\n\n")
    assert await served.outcomes() == {"completed": 1}


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_that_ends_before_its_finish_reason_ends_with_an_error(
    served: Served, path: str
) -> None:
    body, events = STREAMS[path]
    begun = b"".join(events[:-1])
    _answers(served, begun)
    answer = await served.http.post(path, json=body)
    assert answer.content.startswith(begun)
    assert b'"error"' in answer.content
    assert b"[DONE]" not in answer.content


async def test_a_whole_answer_passes_byte_for_byte(served: Served) -> None:
    _answers(served, WHOLE)
    served.engine.raw_type = "application/json"
    body = {"model": "tiny", "prompt": "def f("}
    answer = await served.http.post("/v1/completions", json=body)
    assert (answer.status_code, answer.content) == (200, WHOLE)


@pytest.mark.parametrize(("status", "body"), [(422, REFUSED), (400, PINNED)])
async def test_a_refusal_has_the_form_that_clients_understand(
    served: Served, status: int, body: dict[str, str]
) -> None:
    served.source.current = [replace(served.replicas[0], dialect="openai")]
    served.engine.mode, served.engine.refusal = "refuse", (status, body)
    answer = await served.http.post("/v1/chat/completions", json=chat())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "invalid_value")
    assert error["message"] == body["detail"]
