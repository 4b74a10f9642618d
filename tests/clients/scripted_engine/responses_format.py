"""Scripted answers in the format of `/v1/responses`, whose requests are read as chats."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from clients.scripted_engine.script import MODEL, USAGE, ScriptedAnswer

_TEXT_ITEM_ID = "msg_1"


def as_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """The chat with the same messages, tools and schema."""
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    text_format = (body.get("text") or {}).get("format") or {}
    return {
        "model": body["model"],
        "messages": [_message(item) for item in items],
        "tools": body.get("tools"),
        "stream": body.get("stream"),
        "response_format": {"type": text_format.get("type")},
    }


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    if item.get("type") == "function_call":
        return {"role": "assistant", "content": None}
    if item.get("type") == "function_call_output":
        return {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
    return {"role": item["role"], "content": item["content"]}


def whole_response(answer: ScriptedAnswer) -> dict[str, object]:
    """The body of an answer that is not streamed; also the one in a stream's last event."""
    items = [_call_item(call, "completed") for call in answer.calls] or [
        _text_item("completed", [_text_part(answer.text)])
    ]
    usage = {
        "input_tokens": USAGE[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": USAGE[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(USAGE),
    }
    return _response("completed", items, usage)


def response_events(answer: ScriptedAnswer) -> Iterator[tuple[bytes, bool]]:
    """Each event, and whether it has text."""
    for number, (kind, fields) in enumerate(_named_events(answer)):
        yield _event(kind, fields, number), kind == "response.output_text.delta"


def _named_events(answer: ScriptedAnswer) -> Iterator[tuple[str, dict[str, object]]]:
    begun = {"response": _response("in_progress", [], None)}
    yield "response.created", begun
    yield "response.in_progress", begun
    yield from _call_events(answer) if answer.calls else _text_events(answer)
    yield "response.completed", {"response": whole_response(answer)}


def _text_events(answer: ScriptedAnswer) -> Iterator[tuple[str, dict[str, object]]]:
    yield "response.output_item.added", {"item": _text_item("in_progress", []), "output_index": 0}
    yield "response.content_part.added", {**_text_place(), "part": _text_part("")}
    for piece in answer.pieces():
        delta = {**_text_place(), "delta": piece, "logprobs": []}
        yield "response.output_text.delta", delta
    part = _text_part(answer.text)
    yield "response.output_text.done", {**_text_place(), "text": answer.text, "logprobs": []}
    yield "response.content_part.done", {**_text_place(), "part": part}
    yield "response.output_item.done", {"item": _text_item("completed", [part]), "output_index": 0}


def _call_events(answer: ScriptedAnswer) -> Iterator[tuple[str, dict[str, object]]]:
    for index, call in enumerate(answer.calls):
        place = {"item_id": f"fc_{call['id']}", "output_index": index}
        empty = {**_call_item(call, "in_progress"), "arguments": ""}
        yield "response.output_item.added", {"item": empty, "output_index": index}
        for part in (call["arguments"][:8], call["arguments"][8:]):
            yield "response.function_call_arguments.delta", {**place, "delta": part}
        done = {**place, "arguments": call["arguments"], "name": call["name"]}
        yield "response.function_call_arguments.done", done
        yield (
            "response.output_item.done",
            {"item": _call_item(call, "completed"), "output_index": index},
        )


def _text_place() -> dict[str, object]:
    return {"content_index": 0, "item_id": _TEXT_ITEM_ID, "output_index": 0}


def _text_part(text: str) -> dict[str, object]:
    return {"annotations": [], "text": text, "type": "output_text", "logprobs": None}


def _text_item(status: str, content: list[dict[str, object]]) -> dict[str, object]:
    return {
        "id": _TEXT_ITEM_ID,
        "content": content,
        "role": "assistant",
        "status": status,
        "type": "message",
    }


def _call_item(call: Mapping[str, str], status: str) -> dict[str, object]:
    return {
        "id": f"fc_{call['id']}",
        "call_id": call["id"],
        "name": call["name"],
        "arguments": call["arguments"],
        "status": status,
        "type": "function_call",
    }


def _response(
    status: str, output: list[dict[str, object]], usage: dict[str, object] | None
) -> dict[str, object]:
    return {
        "id": "resp_1",
        "created_at": 1,
        "model": MODEL,
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": status,
        "incomplete_details": None,
        "usage": usage,
    }


def _event(kind: str, fields: Mapping[str, object], number: int) -> bytes:
    data = {**fields, "sequence_number": number, "type": kind}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {text}\n\n".encode()
