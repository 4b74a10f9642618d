"""Further events of a stream that has begun, byte for byte as vLLM writes them."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.gateway.continuation.stream_tail import StreamTail
from paceline.runtime.gateway.delivered import AnswerPart, ChunkHead, DeliveredAnswer, TokenDelta
from unit.gateway.continuation.streams import (
    COMPLETION_HEAD,
    DONE,
    HEAD,
    chat_chunk,
    completion_chunk,
    event,
)

CHAT: dict[str, Any] = {"model": "m", "messages": []}
COMPLETION: dict[str, Any] = {"model": "m", "prompt": "x"}
WITH_USAGE = {"stream_options": {"include_usage": True}}
ALWAYS = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def tail(request: dict[str, Any], *, has_usage: bool = False) -> StreamTail:
    head = HEAD if "messages" in request else COMPLETION_HEAD
    first = ChunkHead(str(head["id"]), int(str(head["created"])), "m")
    delivered = DeliveredAnswer()
    delta = TokenDelta(0, [4], "a", head=first, prompt_ids=[1, 2, 3], has_usage=has_usage)
    delivered.commit(AnswerPart(b"...", delta))
    return StreamTail(request, delivered)


def usage(num_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": 3,
        "total_tokens": 3 + num_tokens,
        "completion_tokens": num_tokens,
    }


@pytest.mark.parametrize("fields", [{}, WITH_USAGE])
def test_a_chunk_of_a_chat(fields: dict[str, Any]) -> None:
    rendered = tail(CHAT | fields)
    assert rendered.render_chunk("é", [7], None, "END", 2) == chat_chunk("é", None)
    assert rendered.render_chunk("", [], "stop", None, 2) == chat_chunk("", None, "stop")


def test_a_chunk_of_a_completion() -> None:
    rendered = tail(COMPLETION)
    assert rendered.render_chunk("é", [7], None, None, 2) == completion_chunk("é", None)
    last = completion_chunk("", None, "stop").replace(b'"stop_reason":null', b'"stop_reason":9')
    assert rendered.render_chunk("", [], "stop", 9, 2) == last


def test_ids_are_shown_to_a_client_that_requested_them() -> None:
    rendered = tail(CHAT | {"return_token_ids": True})
    assert rendered.render_chunk("b", (7, 8), None, None, 3) == chat_chunk("b", [7, 8])


def test_continuous_usage_is_in_every_chunk() -> None:
    choice = {"index": 0, "delta": {"content": "b"}, "logprobs": None, "finish_reason": None}
    expected = event({**HEAD, "choices": [{**choice, "token_ids": None}], "usage": usage(2)})
    assert tail(CHAT | ALWAYS).render_chunk("b", [7], None, None, 2) == expected


def test_continuous_usage_alone_shows_none() -> None:
    rendered = tail(CHAT | {"stream_options": {"continuous_usage_stats": True}})
    assert rendered.render_chunk("b", [7], None, None, 2) == chat_chunk("b", None)
    assert rendered.render_end(2) == DONE


@pytest.mark.parametrize(
    ("request_", "head"), [(CHAT, HEAD), (COMPLETION, COMPLETION_HEAD)], ids=["chat", "completion"]
)
def test_the_usage_comes_before_the_end_once(
    request_: dict[str, Any], head: dict[str, object]
) -> None:
    expected = event({**head, "choices": [], "usage": usage(5)}) + DONE
    assert tail(request_ | WITH_USAGE).render_end(5) == expected
    assert tail(request_ | WITH_USAGE, has_usage=True).render_end(5) == DONE
    assert tail(request_).render_end(5) == DONE
