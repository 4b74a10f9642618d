"""Scripted answers in the format of `/v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clients.scripted_engine.script import MODEL, USAGE, ScriptedAnswer


def whole_chat(answer: ScriptedAnswer) -> dict[str, object]:
    """The body of an answer that is not streamed."""
    message: dict[str, object] = {"role": "assistant", "content": answer.text}
    if answer.calls:
        calls = [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in answer.calls
        ]  # fmt: skip
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {
        "index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)
    }  # fmt: skip
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
        "usage": _usage(),
    }


def chat_events(body: dict[str, Any], answer: ScriptedAnswer) -> Iterator[tuple[bytes, bool]]:
    """Each event, and whether it has text."""
    yield _event(_chunk({"role": "assistant", "content": ""})), False
    for delta in _call_deltas(answer):
        yield _event(_chunk(delta)), False
    for piece in answer.pieces():
        yield _event(_chunk({"content": piece})), True
    yield _event(_chunk({}, _finish_reason(answer))), False
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**_chunk({}), "choices": [], "usage": _usage()}), False
    yield b"data: [DONE]\n\n", False


def _finish_reason(answer: ScriptedAnswer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _usage() -> dict[str, int]:
    return {
        "prompt_tokens": USAGE[0],
        "completion_tokens": USAGE[1],
        "total_tokens": sum(USAGE),
    }


def _call_deltas(answer: ScriptedAnswer) -> Iterator[dict[str, object]]:
    """Yield the id and name of each call once, then its arguments in parts with the index only."""
    for index, call in enumerate(answer.calls):
        first = {"id": call["id"], "type": "function", "index": index,
                 "function": {"name": call["name"], "arguments": ""}}  # fmt: skip
        yield {"tool_calls": [first]}
        for part in (call["arguments"][:8], call["arguments"][8:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _chunk(delta: dict[str, object], finish_reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
    }


def _event(chunk: dict[str, object]) -> bytes:
    text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"
